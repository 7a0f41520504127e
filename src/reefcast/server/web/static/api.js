// Asking the broker. Who has to show who he is signs in on the page (app.js); what he shows stays
// in the memory of this page.

let shown = null;
let unproved = () => {};

/** What to call when the broker asks who this is. */
export function onUnproved(call) {
  unproved = call;
}

export function show(authorization) {
  shown = authorization;
}

export function basic(user, password) {
  const encoded = new TextEncoder().encode(`${user}:${password}`);
  return `Basic ${btoa(String.fromCharCode(...encoded))}`;
}

function headers(more = {}) {
  const found = { "X-Reefcast": "1", ...more };
  if (shown !== null) found.Authorization = shown;
  return found;
}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function checked(response) {
  if (response.ok) return response;
  const error = new Refused(response.status, (await response.text()).trim());
  if (response.status === 401) unproved(error.message);
  throw error;
}

function path(name, query = {}) {
  const asked = new URLSearchParams(query).toString();
  return `api/${name}${asked && `?${asked}`}`;
}

export async function get(name, query = {}, signal = undefined) {
  const response = await fetch(path(name, query), { headers: headers(), signal });
  return (await checked(response)).json();
}

export async function post(name, body) {
  const response = await fetch(path(name), {
    method: "POST",
    headers: headers({ "Content-Type": "application/json" }),
    body: JSON.stringify(body),
  });
  return (await checked(response)).json();
}

/** Read server-sent events until `signal` says so, over as many connections as that takes.
 *  `heard(name, data)`; `state(text, good)` says how it goes. Throws what a broker refuses. */
export async function stream(name, query, signal, heard, state) {
  let pause = 500;
  while (!signal.aborted) {
    try {
      const response = await fetch(path(name, query), { headers: headers(), signal });
      await checked(response);
      state("live", true);
      pause = 500;
      await events(response.body.getReader(), heard);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status < 500 && error.status !== 429) throw error;
    }
    if (signal.aborted) return;
    state("connecting again", false);
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(5000, pause * 2);
  }
}

async function events(reader, heard) {
  const decoder = new TextDecoder();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    waiting += decoder.decode(value, { stream: true });
    const parts = waiting.split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const lines = part.split("\n");
      const name = lines[0].slice("event: ".length);
      const data = lines.slice(1).map((line) => line.slice("data: ".length)).join("\n");
      if (name === "end") throw new Refused(401, data);
      heard(name, JSON.parse(data));
    }
  }
}
