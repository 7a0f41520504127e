// Brokers and links, live.

import { confirmWish } from "./actions.js";
import { badge, brokerLink, bytes, el, heading, link, notice, plural, seconds, short, tile } from "./dom.js";
import { may, state, watch } from "./state.js";
import { Table, sorted } from "./table.js";

export function stateOf(each) {
  if (!each.up) return badge("bad", "down");
  if (each.stopping) return badge("warn", "stopping");
  if (each.not_ready.length) return badge("warn", "not ready");
  if (each.congested) return badge("warn", "congested");
  return badge("good", "up");
}

const BROKERS = [
  { text: "Broker", order: "broker", of: (b) => b.broker, cell: (b) => brokerLink(b.broker) },
  { text: "State", order: "state", of: (b) => `${b.up}${b.up && b.not_ready.length}`, cell: (b) => (b.up ? stateOf(b) : [stateOf(b), el("span", { class: "why" }, b.why)]) },
  { text: "In /s", number: true, order: "in", of: (b) => rate(b, "published") + rate(b, "received"), cell: (b) => short(rate(b, "published") + rate(b, "received")) },
  { text: "Out /s", number: true, order: "out", of: (b) => rate(b, "forwarded"), cell: (b) => short(rate(b, "forwarded")) },
  { text: "Delivered /s", number: true, order: "delivered", of: (b) => rate(b, "delivered"), cell: (b) => short(rate(b, "delivered")) },
  { text: "Clients", number: true, order: "clients", of: (b) => b.clients ?? -1, cell: (b) => (b.up ? link(`#/clients/${encodeURIComponent(b.broker)}`, short(b.clients)) : "–") },
  { text: "Queued", number: true, order: "queued", of: (b) => b.queued ?? -1, cell: (b) => (b.up ? short(b.queued) : "–") },
  { text: "Slow", number: true, order: "slow", of: (b) => b.slow ?? -1, cell: (b) => (b.up ? short(b.slow) : "–") },
  { text: "Backlog", number: true, order: "backlog", of: (b) => b.backlog ?? -1, cell: (b) => (b.up && b.keeps ? short(b.backlog) : "–") },
  { text: "Lost", number: true, order: "lost", of: (b) => b.counts?.lost ?? -1, cell: (b) => (b.up ? short(b.counts.lost) : "–") },
  { text: "Memory", number: true, order: "memory", of: (b) => b.memory_mb ?? -1, cell: (b) => (b.up ? bytes(b.memory_mb * 1e6) : "–") },
  { text: "Up for", number: true, order: "uptime", of: (b) => b.uptime_s ?? -1, cell: (b) => (b.up ? seconds(b.uptime_s) : "–") },
];

const rate = (b, name) => (b.up ? (b.rates[name] ?? 0) : 0);

/** A table that is sorted on the page. */
function live(caption, columns, key, rows, none) {
  let [order, descending] = [columns[0].order, false];
  const table = new Table(caption, columns, key, (wanted) => {
    descending = wanted === order ? !descending : columns.find((c) => c.order === wanted).number === true;
    order = wanted;
    renew();
  });
  const renew = () => {
    const of = columns.find((column) => column.order === order).of;
    table.mark(order, descending);
    table.show(sorted(rows(state.network), of, descending), none);
  };
  return [table.node, watch(renew)];
}

export function brokers(main) {
  const [node, stop] = live("All brokers", BROKERS, (b) => b.broker, (network) => network.brokers);
  main.append(heading("Brokers"), node);
  return stop;
}

/** The two ends of all links, a line each. */
function endsOf(network) {
  return network.links.flatMap((each) =>
    each.between.map((name, at) => ({ from: name, to: each.between[1 - at], end: each.ends[at], up: each.up, kind: each.kind })));
}

const KINDS = { a_link: "aLink", i_link: "iLink", soft: "soft", "": "" };
const LINKS = [
  { text: "From", order: "from", of: (l) => l.from, cell: (l) => brokerLink(l.from) },
  { text: "To", order: "to", of: (l) => l.to, cell: (l) => brokerLink(l.to) },
  { text: "State", order: "state", of: (l) => `${l.up}`, cell: (l) => linkState(l) },
  { text: "Kind", order: "kind", of: (l) => l.kind, cell: (l) => KINDS[l.kind] ?? l.kind },
  { text: "Queue", number: true, order: "queue", of: (l) => l.end?.queue_len ?? -1, cell: (l) => figure(l, "queue_len") },
  { text: "Load", number: true, order: "load", of: (l) => l.end?.load ?? -1, cell: (l) => (l.end === null ? "–" : [l.end.overloaded ? badge("bad", "overloaded") : "", ` ${short(l.end.load)}`]) },
  { text: "In /s", number: true, order: "in", of: (l) => l.end?.in_per_s ?? -1, cell: (l) => figure(l, "in_per_s") },
  { text: "Out /s", number: true, order: "out", of: (l) => l.end?.out_per_s ?? -1, cell: (l) => figure(l, "out_per_s") },
  { text: "Found overloaded", number: true, order: "found", of: (l) => l.end?.found_overloaded ?? -1, cell: (l) => figure(l, "found_overloaded") },
  { text: "Waits for it", number: true, order: "waits", of: (l) => l.end?.waiting ?? -1, cell: (l) => waits(l) },
  { text: "Made again", number: true, order: "again", of: (l) => l.end?.reconnects ?? -1, cell: (l) => figure(l, "reconnects") },
];

const figure = (l, name) => (l.end === null ? "–" : short(l.end[name]));

function linkState(l) {
  if (l.end === null) return badge("bad", "broker down");
  if (l.end.state !== "up") return badge("bad", l.end.state);
  return l.up ? badge("good", "up") : badge("warn", "one end up");
}

function waits(l) {
  if (l.end === null) return "–";
  const away = l.end.away_s === null ? "" : `, away for ${seconds(l.end.away_s)}`;
  const kept = l.end.in_custody ? `, ${short(l.end.in_custody)} in custody` : "";
  const text = `${short(l.end.waiting)}${kept}${away}`;
  if (!may("drain") || l.end.away_s === null) return text;
  const wish = (reroute) => () =>
    confirmWish(
      reroute ? "Route again" : "Drop",
      `What ${l.from} keeps for ${l.to} is ${reroute ? "routed again by the rows of now" : "dropped; publishers who wait are told so"}. ` +
        `Only for a broker that never comes back.`,
      l.from, { type: "give_up", neighbour: l.to, reroute });
  return [text, " ", el("button", { type: "button", onclick: wish(true) }, "route again"), " ",
    el("button", { type: "button", class: "danger", onclick: wish(false) }, "drop")];
}

export function links(main) {
  const [node, stop] = live("The ends of all links", LINKS, (l) => `${l.from} ${l.to}`, endsOf, "no links");
  main.append(
    heading("Links"),
    el("p", { class: "hint" }, "A line for each end. Queue: publications not yet acknowledged (Q_len). Load: queue × (1 + in) / (1 + out) of the last window; above tau a link is overloaded."),
    node,
  );
  return stop;
}

// --- one broker ----------------------------------------------------------------------------------

const OWN_LINKS = LINKS.filter((column) => column.order !== "from");

export function broker(main, name) {
  const head = el("div", { class: "tiles" });
  const about = el("p", { class: "hint" });
  const why = el("div");
  const tables = el("div", { class: "chips" });
  const table = new Table(`Links of ${name}`, OWN_LINKS, (l) => l.to);
  const at = encodeURIComponent(name);
  const actions = el("div", { class: "actions" });
  if (may("move")) actions.append(el("button", { type: "button", onclick: () => move(name) }, "Move a link of this broker"));
  main.append(
    heading(`Broker ${name}`), about, why, head,
    el("p", { class: "chips" },
      link(`#/clients/${at}`, "Clients"), link(`#/sessions/${at}`, "Durable sessions"), link(`#/top/${at}`, "Top subscriptions")),
    el("section", { class: "card" }, el("h2", {}, "Links"), table.node, actions),
    el("section", { class: "card" }, el("h2", {}, "Tables"), tables),
  );
  return watch((network) => {
    const b = network.brokers.find((each) => each.broker === name);
    if (b === undefined) {
      why.replaceChildren(notice("bad", `there is no broker named ${name}`));
      return;
    }
    table.show(endsOf(network).filter((l) => l.from === name), "no links");
    if (!b.up) {
      why.replaceChildren(notice("bad", `It is down: ${b.why}`));
      head.replaceChildren();
      about.textContent = "";
      return;
    }
    why.replaceChildren(...b.not_ready.map((text) => notice("warn", `Not ready: ${text}`)));
    const place = b.region === null ? "" : `, region ${b.region}, cluster ${b.cluster}`;
    about.textContent = `Reefcast ${b.version}, routing ${b.routing}${place}, up for ${seconds(b.uptime_s)}, memory ${bytes(b.memory_mb * 1e6)}`;
    head.replaceChildren(...tiles(b));
    const shown = Object.entries(b.tables).map(([table, rows]) => link(`#/tables/${at}/${encodeURIComponent(table)}`, `${table}: ${short(rows)}`));
    if (!tables.contains(document.activeElement)) tables.replaceChildren(...shown);
  });
}

function tiles(b) {
  const lost = Object.entries(b.lost).map(([reason, count]) => `${reason} ${short(count)}`).join(", ");
  const found = [
    tile("Published", `${short(b.rates.published)}/s`, "", `${short(b.counts.published)} by its clients`),
    tile("From neighbours", `${short(b.rates.received)}/s`, "", short(b.counts.received)),
    tile("Forwarded", `${short(b.rates.forwarded)}/s`, "", short(b.counts.forwarded)),
    tile("Delivered", `${short(b.rates.delivered)}/s`, "", short(b.counts.delivered)),
    tile("Lost", short(b.counts.lost), b.rates.lost ? "bad" : b.counts.lost ? "warn" : "", lost),
    tile("Clients", short(b.clients), b.slow ? "warn" : "", `${short(b.slow)} slow, ${short(b.away)} away`),
    tile("Queued for clients", short(b.queued), "", `longest ${short(b.queued_most)}`),
    tile("Subscriptions", short(b.subscriptions), "", plural(b.advertisements, "advertisement")),
  ];
  if (b.keeps) {
    found.push(
      tile("Backlog", short(b.backlog), b.oldest_age_s > 3600 ? "warn" : "", b.backlog ? `oldest ${seconds(b.oldest_age_s)}` : ""),
      tile("Dead letters", short(b.dead_letters), b.dead_letters ? "warn" : ""),
    );
  }
  return found;
}

function move(name) {
  const others = state.network.brokers.map((each) => each.broker).filter((each) => each !== name);
  const neighbours = endsOf(state.network).filter((l) => l.from === name && l.kind !== "soft").map((l) => l.to);
  const choices = (id, names) => el("select", { id }, names.map((each) => el("option", { value: each }, each)));
  const [old, fresh] = [choices("old", neighbours), choices("new", others)];
  confirmWish(
    "Move a link",
    "In a mesh, while publications flow: none is lost or comes twice. It takes a while; the table “moves” of the broker says how it goes. Change the network file afterwards, too.",
    name,
    () => ({ type: "move_link", old: old.value, new: fresh.value }),
    el("label", { class: "field" }, el("span", {}, "The link to"), old),
    el("label", { class: "field" }, el("span", {}, "becomes one to"), fresh),
  );
}
