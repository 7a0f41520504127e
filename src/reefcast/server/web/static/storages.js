// The storages of the network file.

import { get } from "./api.js";
import { badge, brokerLink, el, heading, notice } from "./dom.js";
import { Table } from "./table.js";

const AGAIN_MS = 5000;

function stateOf(s) {
  if (!s.broker_up) return badge("bad", "its broker is down");
  if (s.silent.length) return badge("bad", "does not answer");
  return s.joins.length ? badge("warn", "takes over") : badge("good", "answers");
}

const list = (topics) => el("code", { class: "filter" }, topics.join("\n") || "–");
const COLUMNS = [
  { text: "Storage", cell: (s) => el("span", { class: "id" }, s.storage) },
  { text: "At", cell: (s) => brokerLink(s.broker) },
  { text: "State", cell: stateOf },
  { text: "Answers for", cell: (s) => list(s.answers) },
  { text: "Takes over", cell: (s) => list(s.joins) },
  { text: "Does not answer for", cell: (s) => list(s.silent) },
];

export function storages(main) {
  const table = new Table("Storages", COLUMNS, (s) => s.storage);
  const said = el("div");
  const aborting = new AbortController();
  main.append(heading("Storages"), said, table.node);
  const renew = async () => {
    if (document.hidden) return;
    try {
      table.show(await get("storages", {}, aborting.signal), "the network file has no storages");
      said.replaceChildren();
    } catch (error) {
      if (!aborting.signal.aborted) said.replaceChildren(notice("bad", error.message));
    }
  };
  const timer = setInterval(renew, AGAIN_MS);
  renew();
  return () => { clearInterval(timer); aborting.abort(); };
}
