// The path of publications through the network, hop by hop, live.

import { badge, brokerLink, clock, el, heading, micros, notice, plural, short } from "./dom.js";
import { followed, inLine, when } from "./paths.js";

const KINDS = { delivered: "good", forwarded: "info", unwanted: "warn", duplicate: "warn", refused: "bad", held: "warn", "not wanted here": "warn" };

export function follow(main, first = "") {
  let stop = () => {};
  let [paused, chosen] = [false, null];
  const filter = el("input", { name: "filter", value: first, placeholder: "symbol = 'IBM'  (empty: all)", spellcheck: "false", autocapitalize: "none" });
  const list = el("ul", { class: "paths", "aria-label": "Publications, the newest first" });
  const detail = el("section", { class: "card path", "aria-live": "polite" });
  const said = el("div");
  const begin = (event) => {
    event?.preventDefault();
    stop();
    chosen = null;
    list.replaceChildren();
    detail.replaceChildren(el("p", { class: "hint" }, "Choose a publication to see its path."));
    said.replaceChildren(el("p", { class: "hint" }, "Waiting for publications …"));
    const fail = (text) => said.replaceChildren(notice("bad", text));
    stop = followed(filter.value, (paths, update) => { if (!paused) renew(paths, update); }, fail);
  };
  const pause = el("button", { type: "button", "aria-pressed": "false", onclick: () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
  } }, "Pause");
  const renew = (paths, update) => {
    said.replaceChildren(...remarks(paths, update));
    const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : null;
    list.replaceChildren(...paths.map((path) => item(path, chosen, (each) => { chosen = each.id; draw(detail, each); mark(list, chosen); })));
    if (focused !== null) [...list.querySelectorAll("button")].find((each) => each.dataset.id === focused)?.focus({ preventScroll: true });
    const now = paths.find((path) => path.id === chosen);
    if (now !== undefined) draw(detail, now);
  };
  main.append(
    heading("Follow"),
    el("form", { class: "controls", onsubmit: begin },
      el("label", { class: "field grow" }, el("span", {}, "Filter"), filter),
      el("button", { type: "submit", class: "primary" }, "Follow"), pause),
    said,
    el("div", { class: "columns even" }, list, detail),
  );
  begin();
  return () => stop();
}

function remarks(paths, update) {
  const found = [];
  for (const [broker, why] of Object.entries(update.silent)) found.push(notice("warn", `${broker} tells nothing: ${why}`));
  if (update.share < 1) found.push(notice("warn", `The network is busy: of the publications ${(100 * update.share).toFixed(update.share < 0.01 ? 2 : 0)} % are looked at, the same ones at all brokers.`));
  if (update.missed) found.push(notice("warn", `${plural(update.missed, "sighting")} came too fast, and are not shown.`));
  if (!paths.length) found.push(el("p", { class: "hint" }, "Waiting for publications …"));
  return found;
}

function mark(list, chosen) {
  for (const each of list.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.dataset.id === chosen));
}

/** What became of it, in a word. */
function fate(path) {
  const outcomes = path.sightings.map((each) => each.outcome);
  const delivered = path.sightings.reduce((sum, each) => sum + (each.delivered ?? 0), 0);
  if (delivered) return badge("good", `${short(delivered)} delivered`);
  const worst = ["refused", "held", "unwanted"].find((each) => outcomes.includes(each));
  return worst === undefined ? badge("info", "under way") : badge(KINDS[worst], worst);
}

function item(path, chosen, choose) {
  return el("li", {},
    el("button", { type: "button", "data-id": path.id, "aria-pressed": String(path.id === chosen), onclick: () => choose(path) },
      el("span", { class: "time" }, when(path)), fate(path),
      el("span", { class: "event" }, inLine(path)),
      el("span", { class: "note" }, plural(new Set(path.sightings.map((each) => each.broker)).size, "broker"))));
}

function draw(detail, path) {
  const explain = `#/explain/${encodeURIComponent(path.attributes)}/${encodeURIComponent(path.topics.join("\n"))}`;
  detail.replaceChildren(
    el("h2", {}, "The path of ", el("span", { class: "id" }, path.id)),
    el("p", { class: "hint" }, `published ${when(path)} (the publisher's clock), ${short(path.size)} bytes`, path.cut ? ", shown in part" : ""),
    el("code", { class: "filter event" }, inLine(path)),
    el("ol", { class: "steps" }, path.sightings.map((each) => step(path, each))),
    el("p", {}, el("a", { href: explain }, "Why does a filter match it, or not?")),
  );
}

function step(path, seen) {
  const after = micros(seen.at_us - path.published_us);
  const parts = [
    el("div", { class: "line" }, el("strong", {}, brokerLink(seen.broker)), badge(KINDS[seen.outcome] ?? "info", seen.outcome),
      el("span", { class: "time", title: `${clock(seen.at_us)} by this broker's clock` }, `+${after}`)),
    el("div", { class: "note" }, seen.hops ? `from ${seen.by}, hop ${seen.hops}` : `from its publisher ${seen.by}`,
      seen.again ? ", sent again" : "", seen.confirm ? ", to be confirmed" : "",
      seen.matched === null || seen.matched === undefined ? "" : `; ${plural(seen.matched, "row")} matched, ${micros(seen.took_us)}`),
  ];
  if (seen.why) parts.push(el("div", { class: "why" }, seen.why));
  if (seen.clients?.length) {
    const more = seen.delivered - seen.clients.length;
    parts.push(el("div", {}, "to ", seen.clients.join(", "), more > 0 ? ` and ${short(more)} more` : ""));
  }
  for (const hop of seen.to ?? []) {
    parts.push(el("div", { class: "hop" }, `→ ${hop.to}`, el("span", { class: "note" }, ` ${short(hop.queue_len)} in the queue${hop.soft ? ", a soft link" : ""}`)));
  }
  return el("li", {}, parts);
}
