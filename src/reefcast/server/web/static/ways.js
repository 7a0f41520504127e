// Publications that are followed, as the broker sends them: the newest first.

import { stream } from "./api.js";
import { clock } from "./dom.js";

const MOST = 200;

/** Follow what matches `filter`; `changed(ways, update)` after each piece of news. Return what ends
 *  it. `failed(text)`: why it cannot go on. */
export function followed(filter, changed, failed) {
  const aborting = new AbortController();
  const ways = new Map();
  const told = (name, update) => {
    for (const way of update.ways) {
      ways.delete(way.id);
      ways.set(way.id, way);
    }
    while (ways.size > MOST) ways.delete(ways.keys().next().value); // the longest without news
    changed([...ways.values()].sort((a, b) => b.published_us - a.published_us), update);
  };
  const state = (text, good) => { if (!good) failed("the connection broke; connecting again"); };
  stream("follow", { filter }, aborting.signal, told, state).catch((error) => failed(error.message));
  return () => aborting.abort();
}

/** An event in one line. */
export function inLine(way) {
  const topics = way.topics.length ? `${way.topics.join(", ")}  ` : "";
  return `${topics}${way.attributes}`;
}

export const when = (way) => clock(way.published_us);
