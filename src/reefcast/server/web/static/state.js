// What is known of the network now, and who looks.

const MOST = 120;

export const state = { me: null, network: null, history: [], failed: "" };
const watchers = new Set();

/** Call `call` whenever the network has news, until the function that is returned is called. */
export function watch(call) {
  watchers.add(call);
  if (state.network !== null) call(state.network);
  return () => watchers.delete(call);
}

export function heard(network) {
  state.network = network;
  state.history.push(totals(network));
  if (state.history.length > MOST) state.history.shift();
  for (const call of [...watchers]) call(network);
}

export const up = (network) => network.brokers.filter((each) => each.up);

/** Sums over all brokers that are up. */
export function totals(network) {
  const sum = (of) => up(network).reduce((total, each) => total + (of(each) ?? 0), 0);
  return {
    brokers: up(network).length,
    clients: sum((each) => each.clients),
    subscriptions: sum((each) => each.subscriptions),
    slow: sum((each) => each.slow),
    backlog: sum((each) => each.backlog),
    sessions: sum((each) => each.durable_sessions),
    lost: sum((each) => each.counts.lost),
    published: sum((each) => each.rates.published),
    delivered: sum((each) => each.rates.delivered),
    losing: sum((each) => each.rates.lost),
  };
}

export const may = (right) => state.me !== null && state.me.rights.includes(right);

/** What an operator should look at, worst first: [kind, text, where]. */
export function problems(network) {
  const found = [];
  const broker = (name) => `#/broker/${encodeURIComponent(name)}`;
  for (const each of network.brokers) {
    const at = broker(each.broker);
    if (!each.up) {
      found.push(["bad", `${each.broker} is down: ${each.why}`, at]);
      continue;
    }
    if (each.disk_fails) found.push(["bad", `${each.broker}: its disk fails, nothing is confirmed`, at]);
    if (each.rates.lost > 0) found.push(["bad", `${each.broker} loses publications: ${Object.keys(each.lost).join(", ")}`, at]);
    if (each.not_ready.length) found.push(["warn", `${each.broker} is not ready: ${each.not_ready.join("; ")}`, at]);
    if (each.slow) found.push(["warn", `${each.broker}: ${each.slow} of its clients do not keep up`, `#/clients/${encodeURIComponent(each.broker)}`]);
    if (each.congested) found.push(["warn", `${each.broker} is congested: publishers wait`, at]);
    if (each.blocked) found.push(["warn", `${each.broker}: ${each.blocked} publications wait for room in a durable session`, `#/sessions/${encodeURIComponent(each.broker)}`]);
    if (each.dead_letters) found.push(["warn", `${each.broker}: ${each.dead_letters} dead letters`, `#/sessions/${encodeURIComponent(each.broker)}`]);
  }
  for (const each of network.links) {
    const name = each.between.join(" – ");
    const ends = each.ends.filter((end) => end !== null);
    if (!each.up && ends.length) found.push(["warn", `link ${name} is not up`, "#/links"]);
    if (ends.some((end) => end.overloaded)) found.push(["warn", `link ${name} is overloaded`, "#/links"]);
  }
  return found.sort((a, b) => (a[0] === b[0] ? 0 : a[0] === "bad" ? -1 : 1));
}
