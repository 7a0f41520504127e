// Publications that are followed, as the broker sends them: the newest first.

import { stream } from "./api.js";
import { clock } from "./dom.js";

const MOST = 200;

/** Follow what matches `filter`; `changed(paths, update)` after each piece of news. Return what ends
 *  it. `failed(text)`: why it cannot go on. */
export function followed(filter, changed, failed) {
  const aborting = new AbortController();
  const paths = new Map();
  const told = (name, update) => {
    for (const path of update.paths) {
      paths.delete(path.id);
      paths.set(path.id, path);
    }
    while (paths.size > MOST) paths.delete(paths.keys().next().value); // the longest without news
    changed([...paths.values()].sort((a, b) => b.published_us - a.published_us), update);
  };
  const state = (text, good) => { if (!good) failed("the connection broke; connecting again"); };
  stream("follow", { filter }, aborting.signal, told, state).catch((error) => failed(error.message));
  return () => aborting.abort();
}

/** An event in one line. */
export function inLine(path) {
  const topics = path.topics.length ? `${path.topics.join(", ")}  ` : "";
  return `${topics}${path.attributes}`;
}

export const when = (path) => clock(path.published_us);
