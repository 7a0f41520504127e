// The network at a glance: figures, the overlay, and what an operator should look at.

import { el, heading, link, short, tile } from "./dom.js";
import { Graph, spark } from "./graph.js";
import { problems, state, totals, watch } from "./state.js";

const MOST = 12;

export function overview(main) {
  const tiles = el("div", { class: "tiles" });
  const graph = new Graph((name) => { location.hash = `#/broker/${encodeURIComponent(name)}`; });
  const sparks = el("div", { class: "sparks" });
  const list = el("ul", { class: "problems" });
  main.append(
    heading("Overview"),
    tiles,
    el("div", { class: "columns" },
      el("section", { class: "card wide" }, el("h2", {}, "The overlay"), graph.node, legend()),
      el("div", { class: "stack" },
        el("section", { class: "card" }, el("h2", {}, "To look at"), list),
        el("section", { class: "card" }, el("h2", {}, "The last two minutes"), sparks))),
  );
  return watch((network) => {
    const sum = totals(network);
    const down = network.brokers.length - sum.brokers;
    tiles.replaceChildren(
      tile("Brokers up", `${sum.brokers} of ${network.brokers.length}`, down ? "bad" : "good", network.routing),
      tile("Published", `${short(sum.published)}/s`),
      tile("Delivered", `${short(sum.delivered)}/s`),
      tile("Lost", short(sum.lost), sum.losing ? "bad" : sum.lost ? "warn" : "", "since brokers started"),
      tile("Clients", short(sum.clients), sum.slow ? "warn" : "", sum.slow ? `${short(sum.slow)} do not keep up` : "all keep up"),
      tile("Subscriptions", short(sum.subscriptions)),
      tile("Backlog", short(sum.backlog), "", `${short(sum.sessions)} durable sessions`),
    );
    graph.show(network);
    const of = (name) => state.history.map((each) => each[name]);
    sparks.replaceChildren(
      ...[["published", "Published a second"], ["delivered", "Delivered a second"]].map(([name, text]) =>
        el("figure", {}, el("figcaption", {}, el("span", {}, text), el("strong", {}, `at most ${short(Math.max(0, ...of(name)))}`)), spark(of(name), text))),
    );
    const found = problems(network);
    const items = found.slice(0, MOST).map(([kind, text, where]) => el("li", { class: kind }, link(where, text)));
    if (found.length > MOST) items.push(el("li", {}, `and ${found.length - MOST} more`));
    if (!items.length) items.push(el("li", { class: "good" }, "nothing: all is well"));
    keepFocus(list, items);
  });
}

function keepFocus(list, items) {
  const at = [...list.children].findIndex((each) => each.contains(document.activeElement));
  list.replaceChildren(...items);
  if (at >= 0) items[at]?.querySelector("a")?.focus({ preventScroll: true });
}

function legend() {
  const part = (kind, text) => el("span", {}, el("i", { class: `mark ${kind}` }), text);
  return el("p", { class: "legend" },
    part("up", "up"), part("warn", "not ready, or congested"), part("down", "down"),
    part("plain", "a link: wider with more traffic"), part("overloaded", "overloaded"), part("soft", "soft"),
    el("span", {}, "numbers on links: publications that wait"));
}
