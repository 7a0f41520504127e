// Why a filter matches an event, or does not.

import { post } from "./api.js";
import { badge, el, heading, notice } from "./dom.js";
import { followed, inLine, when } from "./paths.js";

const KIND = { TRUE: "good", FALSE: "bad", UNKNOWN: "warn" };

export function explain(main, event = '{"symbol": "IBM", "price": 5}', topics = "") {
  const filter = el("textarea", { name: "filter", rows: 3, spellcheck: "false", required: true });
  filter.value = "symbol = 'IBM' AND price > 10";
  const attributes = el("textarea", { name: "event", rows: 5, spellcheck: "false" });
  attributes.value = event;
  const topic = el("textarea", { name: "topics", rows: 2, spellcheck: "false", placeholder: "one a line; may be empty" });
  topic.value = topics;
  const result = el("section", { class: "result", "aria-live": "polite" });
  const ask = async (submitted) => {
    submitted?.preventDefault();
    const asked = { filter: filter.value, event: attributes.value, topics: topic.value.split("\n").map((each) => each.trim()).filter(Boolean) };
    try {
      result.replaceChildren(...answer(await post("explain", asked)));
    } catch (error) {
      result.replaceChildren(notice("bad", el("span", { class: "pre" }, error.message)));
    }
  };
  const recent = el("ul", { class: "paths", "aria-label": "Recent events" });
  const said = el("div");
  const take = (path) => {
    attributes.value = path.attributes;
    topic.value = path.topics.join("\n");
    ask();
  };
  const fail = (text) => said.replaceChildren(notice("warn", text));
  let shown = [];
  const stop = followed("", (paths) => {
    said.replaceChildren(...(paths.length ? [] : [el("p", { class: "hint" }, "Waiting for publications …")]));
    if (recent.contains(document.activeElement) || recent.matches(":hover")) return;
    shown = paths.slice(0, 30);
    recent.replaceChildren(...shown.map((path) =>
      el("li", {}, el("button", { type: "button", onclick: () => take(path) },
        el("span", { class: "time" }, when(path)), el("span", { class: "event" }, inLine(path))))));
  }, fail);
  main.append(
    heading("Explain"),
    el("div", { class: "columns even" },
      el("form", { class: "card form", onsubmit: ask },
        el("label", { class: "field" }, el("span", {}, "Filter"), filter),
        el("label", { class: "field" }, el("span", {}, "Event: a JSON object of attributes"), attributes),
        el("label", { class: "field" }, el("span", {}, "Topics"), topic),
        el("button", { type: "submit", class: "primary" }, "Explain")),
      el("section", { class: "card" }, el("h2", {}, "Recent events"), said, recent)),
    result,
  );
  return stop;
}

function answer(told) {
  const verdict = told.matches ? badge("good", "matches") : badge("bad", "does not match");
  const under = told.topic === null ? "" : ` under topic ${JSON.stringify(told.topic)}`;
  const marked = told.matches
    ? "Marked conditions suffice for the match, whatever the others are."
    : "The event would match if just the marked conditions were different.";
  return [
    el("div", { class: "card" },
      el("p", { class: "verdict" }, "The filter ", verdict, under, told.never ? ". No event can match this filter." : ""),
      el("p", { class: "hint" }, marked),
      ...told.doubts.map((doubt) => notice("warn", doubt)),
      el("ul", { class: "tree" }, node(told.tree))),
  ];
}

function node(told) {
  const values = Object.entries(told.values ?? {}).map(([name, value]) => (value === null ? `${name}: missing or unknown` : `${name} = ${JSON.stringify(value)}`));
  return el("li", {},
    el("div", { class: `node ${told.decisive ? "decisive" : ""}` },
      badge(KIND[told.verdict], told.verdict), " ", el("code", {}, told.text),
      told.decisive ? el("span", { class: "mark" }, " decides") : "",
      values.length ? el("span", { class: "note" }, ` ${values.join(", ")}`) : ""),
    ...(told.hints ?? []).map((hint) => el("div", { class: "hint" }, `hint: ${hint}`)),
    ...(told.terms ? [el("ul", {}, told.terms.map(node))] : []));
}
