// The overlay as a drawing: a deterministic layout by forces, renewed in place.

import { short, svg } from "./dom.js";

const WIDTH = 1000;
const STEPS = 260;
const WAITING = 10; // fewer are just under way

/** Return the place of each broker, in a square of side 1; the same for the same overlay. */
export function layout(names, pairs) {
  const order = breadthFirst(names, pairs);
  const at = new Map(order.map((name, index) => {
    const angle = (2 * Math.PI * index) / order.length;
    const radius = 0.2 + (0.3 * index) / order.length;
    return [name, { x: 0.5 + radius * Math.cos(angle), y: 0.5 + radius * Math.sin(angle) }];
  }));
  const wished = 0.75 / Math.sqrt(Math.max(names.length, 1));
  for (let step = 0; step < STEPS; step += 1) {
    const heat = 0.08 * (1 - step / STEPS);
    const force = new Map(order.map((name) => [name, { x: 0, y: 0 }]));
    for (let i = 0; i < order.length; i += 1) {
      for (let j = i + 1; j < order.length; j += 1) {
        push(at, force, order[i], order[j], (d) => (wished * wished) / d);
      }
    }
    for (const [a, b] of pairs) push(at, force, a, b, (d) => (-d * d) / wished);
    for (const name of order) {
      const [place, f] = [at.get(name), force.get(name)];
      f.x += (0.5 - place.x) * 0.4 * wished;
      f.y += (0.5 - place.y) * 0.4 * wished;
      const size = Math.hypot(f.x, f.y) || 1e-9;
      place.x += (f.x / size) * Math.min(size, heat);
      place.y += (f.y / size) * Math.min(size, heat);
    }
  }
  return scaled(at);
}

function push(at, force, a, b, size) {
  const [p, q] = [at.get(a), at.get(b)];
  if (p === undefined || q === undefined) return;
  const [dx, dy] = [p.x - q.x || 1e-4, p.y - q.y || 1e-4];
  const d = Math.hypot(dx, dy);
  const f = size(d) / d;
  force.get(a).x += dx * f;
  force.get(a).y += dy * f;
  force.get(b).x -= dx * f;
  force.get(b).y -= dy * f;
}

function breadthFirst(names, pairs) {
  const around = new Map(names.map((name) => [name, []]));
  for (const [a, b] of pairs) {
    around.get(a)?.push(b);
    around.get(b)?.push(a);
  }
  const found = [];
  const seen = new Set();
  for (const start of names) {
    const queue = [start];
    while (queue.length) {
      const name = queue.shift();
      if (seen.has(name) || !around.has(name)) continue;
      seen.add(name);
      found.push(name);
      queue.push(...around.get(name));
    }
  }
  return found;
}

function scaled(at) {
  const places = [...at.values()];
  const range = (of) => [Math.min(...places.map(of)), Math.max(...places.map(of))];
  const [[left, right], [top, bottom]] = [range((p) => p.x), range((p) => p.y)];
  for (const p of places) {
    p.x = right > left ? (p.x - left) / (right - left) : 0.5;
    p.y = bottom > top ? (p.y - top) / (bottom - top) : 0.5;
  }
  return at;
}

/** The drawing. `chosen(name)` is called for a broker. */
export class Graph {
  constructor(chosen) {
    this.chosen = chosen;
    this.overlay = "";
    this.links = svg("g");
    this.nodes = svg("g");
    this.node = svg("svg", { class: "graph", role: "group", "aria-label": "the overlay" }, this.links, this.nodes);
    this.drawn = new Map();
    this.lines = new Map();
  }

  show(network) {
    const narrow = this.node.clientWidth > 0 && this.node.clientWidth < 600;
    const names = network.brokers.map((each) => each.broker);
    const pairs = network.links.map((each) => each.between);
    const overlay = JSON.stringify([names, pairs, narrow]);
    if (overlay !== this.overlay) this.draw(names, pairs, narrow);
    this.overlay = overlay;
    for (const each of network.links) this.showLink(each);
    for (const each of network.brokers) this.showBroker(each);
  }

  draw(names, pairs, narrow) {
    const many = names.length > 20;
    const width = narrow ? 420 : WIDTH;
    const height = narrow ? Math.min(640, 260 + 22 * names.length) : Math.min(620, 260 + 14 * names.length);
    this.crowded = narrow ? names.length > 4 : names.length > 30;
    const edge = { x: narrow ? 40 : 60, y: 46 };
    this.radius = (narrow ? 11 : 15) - (many ? 4 : 0);
    this.node.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const at = layout(names, pairs);
    const place = (name) => {
      const p = at.get(name);
      return { x: edge.x + p.x * (width - 2 * edge.x), y: edge.y + p.y * (height - 2 * edge.y - 14) };
    };
    this.lines = new Map();
    this.links.replaceChildren(
      ...pairs.filter((pair) => pair.every((name) => at.has(name))).map((pair) => {
        const [a, b] = pair.map(place);
        const line = svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y });
        const text = svg("text", { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 - 5, class: "queue" });
        this.lines.set(pair.join(" "), { line, text, title: svg("title") });
        line.append(this.lines.get(pair.join(" ")).title);
        return svg("g", {}, line, text);
      }),
    );
    this.drawn = new Map();
    this.nodes.replaceChildren(...names.map((name) => this.broker(name, place(name))));
  }

  broker(name, { x, y }) {
    const open = () => this.chosen(name);
    const circle = svg("circle", { cx: x, cy: y, r: this.radius });
    const cross = svg("path", { class: "cross", d: `M${x - 5} ${y - 5}l10 10m0-10l-10 10` });
    const label = svg("text", { x, y: y + this.radius + 14 }, name);
    const note = svg("text", { x, y: y - this.radius - 6, class: "note" });
    const group = svg(
      "g",
      {
        class: "broker", tabindex: "0", role: "link", "data-broker": name, onclick: open,
        onkeydown: (event) => { if (event.key === "Enter") open(); },
      },
      circle, cross, label, note,
    );
    this.drawn.set(name, { group, note });
    return group;
  }

  showBroker(each) {
    const { group, note } = this.drawn.get(each.broker);
    const kind = !each.up ? "down" : each.not_ready.length || each.congested ? "warn" : "up";
    group.setAttribute("class", `broker ${kind}`);
    const load = each.up ? each.rates.published + each.rates.received || 0 : 0;
    const words = !each.up ? "down" : load && !this.crowded ? `${short(load)}/s` : "";
    note.textContent = words;
    const told = each.up ? `${each.clients} clients, ${short(load)} publications a second in` : `down: ${each.why}`;
    group.setAttribute("aria-label", `broker ${each.broker}: ${kind === "warn" ? "not ready or congested, " : ""}${told}`);
  }

  showLink(each) {
    const drawn = this.lines.get(each.between.join(" "));
    if (drawn === undefined) return;
    const ends = each.ends.filter((end) => end !== null);
    const overloaded = ends.some((end) => end.overloaded);
    const kind = !each.up ? "down" : overloaded ? "overloaded" : each.kind === "soft" ? "soft" : "up";
    const rate = Math.max(0, ...ends.map((end) => end.in_per_s + end.out_per_s));
    const waits = Math.max(0, ...ends.map((end) => Math.max(end.queue_len, end.waiting)));
    drawn.line.setAttribute("class", kind);
    drawn.line.setAttribute("stroke-width", 1.5 + Math.min(6, Math.log10(1 + rate) * 1.6));
    drawn.text.textContent = waits >= WAITING ? short(waits) : "";
    drawn.title.textContent = `${each.between.join(" – ")}: ${kind}, ${short(rate)}/s, ${short(waits)} wait`;
  }
}

/** A line of figures over the last two minutes. */
export function spark(values, label) {
  const most = Math.max(1, ...values);
  const points = values.map((value, at) => `${(at * 240) / Math.max(1, values.length - 1)},${38 - (value / most) * 34}`);
  return svg(
    "svg",
    { class: "spark", viewBox: "0 0 240 40", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("polyline", { points: points.join(" ") }),
  );
}
