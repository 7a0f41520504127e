// A WebSocket of the broker's HTTP listener, one subscription, and what it brings on a map.

const FIRST = "destination = 'JFK' AND altitude < 20000";
const PAUSE_MS = 150; // without a key, before a filter is sent
const KEPT_MS = 2500; // airplanes report once a second; one that does not match any more goes
const ROWS = 15;

const broker = new URLSearchParams(location.search).get("broker") ?? `${location.hostname}:8080`;
const element = (id) => document.getElementById(id);
const filter = element("filter");
const planes = new Map(); // by flight: its last report, and when it came
let airports = {};
let events = 0, dropped = 0;

filter.value = FIRST;

// --- the subscription ------------------------------------------------------------------------------

/** The connection to the broker. One request is under way at a time; the last text wins. */
class Link {
  constructor() {
    this.subscription = 0; // its number, when there is one
    this.asked = 0; // the id of the request that is not answered yet
    this.wanted = this.sent = null;
    this.last = 0;
    this.socket = new WebSocket(`ws://${broker}/v1/events`);
    this.socket.onopen = () => { element("link").textContent = "live"; this.want(filter.value); };
    this.socket.onmessage = ({ data }) => this.hear(JSON.parse(data));
    this.socket.onclose = () => {
      element("link").textContent = `no connection to ${broker}, trying again`;
      setTimeout(() => { link = new Link(); }, 1000);
    };
  }

  want(text) {
    this.wanted = text;
    this.ask();
  }

  ask() {
    const open = this.socket.readyState === WebSocket.OPEN;
    if (!open || this.asked || this.wanted === this.sent) return;
    this.sent = this.wanted;
    this.asked = ++this.last;
    const request = this.subscription
      ? { type: "replace", subscription: this.subscription, filter: this.sent }
      : { type: "subscribe", filter: this.sent };
    this.socket.send(JSON.stringify({ id: this.asked, ...request }));
  }

  hear(told) {
    if (told.type === "events") return told.events.forEach(see);
    if (told.type === "dropped") return void (dropped += told.count);
    if (!told.id || told.id !== this.asked) return;
    this.asked = 0;
    if (told.type === "problem") {
      showProblem(told.problem.detail ?? told.problem.title);
    } else {
      this.subscription = told.subscription ?? this.subscription;
      showProblem("");
      planes.clear(); // those that still match report within a second
    }
    this.ask();
  }
}

function showProblem(text) {
  element("problem").textContent = text;
  filter.setAttribute("aria-invalid", String(text !== ""));
}

function see({ attributes }) {
  events += 1;
  planes.set(attributes.flight, { ...attributes, seen: performance.now() });
}

let link = new Link();
let typing = 0;
filter.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => link.want(filter.value), PAUSE_MS);
});

// --- the map ---------------------------------------------------------------------------------------

const canvas = element("map");
const pen = canvas.getContext("2d");

function draw() {
  const width = canvas.clientWidth, height = canvas.clientHeight, scale = devicePixelRatio;
  if (canvas.width !== Math.round(width * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  const at = (lat, lon) => [((lon + 180) / 360) * width, ((90 - lat) / 180) * height];
  const style = getComputedStyle(document.documentElement);
  pen.strokeStyle = style.getPropertyValue("--line");
  pen.beginPath();
  for (let lon = -150; lon < 180; lon += 30) { pen.moveTo(...at(90, lon)); pen.lineTo(...at(-90, lon)); }
  for (let lat = -60; lat < 90; lat += 30) { pen.moveTo(...at(lat, -180)); pen.lineTo(...at(lat, 180)); }
  pen.stroke();
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = style.getPropertyValue("--land");
  for (const [name, [lat, lon]] of Object.entries(airports)) {
    const [x, y] = at(lat, lon);
    pen.fillRect(x - 2, y - 2, 4, 4);
    pen.fillText(name, x + 4, y + 4);
  }
  pen.fillStyle = style.getPropertyValue("--dot");
  for (const plane of planes.values()) {
    const [x, y] = at(plane.lat, plane.lon);
    pen.globalAlpha = 0.35 + 0.65 * Math.min(1, plane.altitude / 36000);
    pen.fillRect(x - 1.5, y - 1.5, 3, 3);
  }
  pen.globalAlpha = 1;
  requestAnimationFrame(draw);
}

function forget() {
  const before = performance.now() - KEPT_MS;
  for (const [flight, plane] of planes) if (plane.seen < before) planes.delete(flight);
}

function list() {
  const first = [...planes.values()].sort((a, b) => a.minutes_left - b.minutes_left || (a.flight < b.flight ? -1 : 1));
  element("rows").replaceChildren(...first.slice(0, ROWS).map((plane) => {
    const row = document.createElement("tr");
    const values = [plane.flight, plane.origin, plane.destination, plane.altitude, plane.minutes_left];
    for (const [column, value] of values.entries()) {
      const cell = row.insertCell();
      cell.textContent = value;
      if (column > 2) cell.className = "number";
    }
    return row;
  }));
  element("planes").textContent = planes.size;
}

let counted = performance.now();
setInterval(() => {
  forget();
  list();
  const now = performance.now();
  element("rate").textContent = Math.round(events / ((now - counted) / 1000));
  element("dropped").textContent = dropped;
  element("lost").hidden = dropped === 0;
  counted = now;
  events = 0;
}, 500);

airports = await (await fetch("airports.json")).json();
requestAnimationFrame(draw);
