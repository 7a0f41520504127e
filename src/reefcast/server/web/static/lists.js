// Long lists of one broker, a page at a time: clients, durable sessions, subscriptions, tables.

import { get } from "./api.js";
import { confirmWish } from "./actions.js";
import { badge, brokerLink, bytes, choice, el, heading, notice, plural, seconds, short } from "./dom.js";
import { may, state, up, watch } from "./state.js";
import { Table } from "./table.js";

const MOST = 50;
const AGAIN_MS = 3000;

const ALL = "all";

/** A list of a broker, or of all together (`ALL`). `kind`: as the broker calls it; `columns(list)`: those of the table; each
 *  row is an object by the broker's column names. */
class List {
  constructor(main, kind, title, view, broker, name = "") {
    this.kind = kind;
    this.view = view;
    this.broker = broker;
    this.name = name;
    this.asked = { order: "", descending: true, skip: 0, search: "" };
    this.total = 0;
    this.table = null;
    this.said = el("div");
    this.place = el("div");
    this.count = el("span", { class: "count", role: "status" });
    this.controls = el("div", { class: "controls" });
    this.before = el("button", { type: "button", onclick: () => this.turn(-MOST) }, "← before");
    this.behind = el("button", { type: "button", onclick: () => this.turn(MOST) }, "next →");
    main.append(heading(title), this.controls, this.said, this.place,
      el("div", { class: "pager" }, this.before, this.count, this.behind));
    this.aborting = new AbortController();
    this.timer = setInterval(() => this.renew(), AGAIN_MS);
    this.stop = watch((network) => this.chooseBroker(network));
  }

  /** Show the brokers to choose from, when they are known. */
  chooseBroker(network) {
    const names = up(network).map((each) => each.broker);
    if (this.broker !== ALL && !network.brokers.some((each) => each.broker === this.broker)) {
      this.broker = this.together ? ALL : names.includes(state.me.broker) ? state.me.broker : names[0];
    }
    const known = JSON.stringify([names, this.broker]);
    if (known === this.known) return;
    const first = this.known === undefined;
    this.known = known;
    const all = names.includes(this.broker) || this.broker === ALL ? names : [this.broker, ...names];
    const options = all.map((each) => [each, each]);
    if (this.together) options.unshift([ALL, "all brokers"]);
    this.choice = choice("Broker", options, this.broker, (name) => {
      location.hash = `#/${this.view}/${encodeURIComponent(name)}`;
    });
    this.controls.replaceChildren(this.choice, ...this.more());
    if (first) this.renew();
  }

  /** Whether there is a list of all brokers. */
  get together() { return true; }

  /** More controls than the broker. */
  more() {
    return [this.search()];
  }

  search() {
    const input = el("input", {
      type: "search", name: "search", value: this.asked.search,
      onchange: (event) => { this.asked = { ...this.asked, search: event.target.value, skip: 0 }; this.renew(); },
    });
    return el("label", { class: "field" }, el("span", {}, "Search"), input);
  }

  turn(by) {
    this.asked.skip = Math.max(0, this.asked.skip + by);
    this.renew();
  }

  order(by) {
    const descending = this.asked.order === by ? !this.asked.descending : true;
    this.asked = { ...this.asked, order: by, descending, skip: 0 };
    this.renew();
  }

  async renew() {
    if (this.broker === undefined || document.hidden) return;
    const broker = this.broker === ALL ? "" : this.broker;
    const query = { broker, kind: this.kind, name: this.name, most: MOST, ...this.asked };
    this.last = query;
    try {
      const page = await get("page", query, this.aborting.signal);
      if (this.last === query) this.show(page);
    } catch (error) {
      if (!this.aborting.signal.aborted) this.said.replaceChildren(notice("bad", error.message));
    }
  }

  show(page) {
    const rows = page.lines.map((line) => Object.fromEntries(line.map((value, at) => [page.columns[at], value])));
    if (this.table === null || this.table.made !== page.columns.join()) {
      const columns = this.columns(page);
      if (this.broker === ALL) columns.unshift({ text: "Broker", cell: (row) => brokerLink(row.broker) });
      this.table = new Table(this.kind, columns, (row) => this.key(row), (by) => this.order(by));
      this.table.made = page.columns.join();
      this.place.replaceChildren(this.table.node);
    }
    this.total = page.total;
    const silent = Object.entries(page.silent ?? {}).map(([name, why]) => notice("warn", `${name}: ${why}`));
    this.said.replaceChildren(...silent, ...(page.legend ? [el("p", { class: "hint" }, page.legend)] : []));
    this.table.mark(this.asked.order, this.asked.descending);
    this.table.show(rows, this.none());
    const last = Math.min(this.total, this.asked.skip + rows.length);
    this.count.textContent = this.total ? `${this.asked.skip + 1}–${last} of ${short(this.total)}` : "none";
    this.before.disabled = this.asked.skip === 0;
    this.behind.disabled = last >= this.total;
  }

  none() {
    return this.asked.search ? "nothing with this text" : "nothing here";
  }

  end() {
    this.aborting.abort();
    clearInterval(this.timer);
    this.stop();
  }
}

// --- clients -------------------------------------------------------------------------------------

class Clients extends List {
  key(row) { return `${row.broker} ${row.client}`; }

  columns() {
    return [
      { text: "Client", order: "client", cell: (c) => el("span", { class: "id" }, c.client) },
      { text: "User", order: "user", cell: (c) => c.user },
      { text: "State", cell: (c) => clientState(c) },
      { text: "Queue", number: true, order: "queue_len", cell: (c) => `${short(c.queue_len)} of ${short(c.queue_limit)}` },
      { text: "Policy", cell: (c) => c.queue_policy },
      { text: "Bytes kept", number: true, order: "queue_bytes", cell: (c) => bytes(c.queue_bytes) },
      { text: "Dropped", number: true, order: "dropped", cell: (c) => short(c.dropped) },
      { text: "Credit", number: true, cell: (c) => short(c.credit) },
    ];
  }
}

function clientState(c) {
  const found = [];
  if (c.slow) found.push(badge("bad", "slow"));
  if (!c.connected) found.push(badge("warn", "away"));
  if (c.throttled) found.push(badge("warn", "throttled"));
  if (c.withheld_for.length) found.push(badge("warn", "waits for others"));
  return found.length ? found : badge("good", "fine");
}

export function clients(main, broker) {
  const list = new Clients(main, "clients", "Clients", "clients", broker);
  return () => list.end();
}

// --- durable sessions ----------------------------------------------------------------------------

class Sessions extends List {
  key(row) { return `${row.owner} ${row.session}`; }
  none() { return this.asked.search ? super.none() : "no durable sessions"; }

  columns() {
    const found = [
      { text: "Session", order: "session", cell: (s) => el("span", { class: "id" }, s.session) },
      { text: "Owner", order: "owner", cell: (s) => s.owner },
      { text: "Backlog", number: true, order: "events", cell: (s) => short(s.events) },
      { text: "Bytes", number: true, order: "bytes", cell: (s) => bytes(s.bytes) },
      { text: "Oldest", number: true, cell: (s) => (s.oldest_s ? seconds(Date.now() / 1000 - s.oldest_s) : "–") },
      { text: "Consumers", number: true, order: "consumers", cell: (s) => consumers(s) },
      { text: "In their hands", number: true, cell: (s) => short(s.unacknowledged) },
      { text: "Dead letters", number: true, order: "dead_letters", cell: (s) => short(s.dead_letters) },
      { text: "Blocked", number: true, order: "waiting", cell: (s) => short(s.waiting) },
      { text: "Dropped", number: true, order: "dropped", cell: (s) => short(s.dropped) },
      { text: "Subscriptions", cell: (s) => el("code", { class: "filter" }, s.subscriptions.join("\n")) },
    ];
    if (may("drain")) found.push({ text: "Do", cell: (s) => this.actions(s) });
    return found;
  }

  actions(s) {
    const wish = (what, title, text) => () =>
      confirmWish(title, text, s.broker ?? this.broker, { type: "manage_session", owner: s.owner, session: s.session, what }, () => this.renew());
    const name = `session ${s.session} of ${s.owner || "nobody"}`;
    const found = [
      el("button", { type: "button", class: "danger", onclick: wish("drain", "Drain", `All ${plural(s.events, "event")} that ${name} owes are dropped, but for its dead letters.`) }, "drain"), " ",
      el("button", { type: "button", class: "danger", onclick: wish("close", "Close", `The ${name} ends, with its subscriptions and all that it owes. Its consumers are told so.`) }, "close"),
    ];
    if (s.dead_letters) {
      found.push(" ", el("button", { type: "button", onclick: wish("move_dead_letters", "Deliver again", `The dead letters of ${name} go behind all else in its queue, as if they were new.`) }, "dead letters again"));
    }
    return found;
  }
}

function consumers(s) {
  if (!s.consumers) return s.events ? badge("warn", "none") : "0";
  return s.slow ? [short(s.consumers), " ", badge("warn", `${s.slow} slow`)] : short(s.consumers);
}

export function sessions(main, broker) {
  const list = new Sessions(main, "sessions", "Durable sessions", "sessions", broker);
  return () => list.end();
}

// --- subscriptions by deliveries -----------------------------------------------------------------

class Top extends List {
  key(row) { return `${row.broker} ${row.client} ${row.number}`; }
  none() { return "no deliveries lately"; }

  columns() {
    const perS = (row) => {
      if (row.per_s !== undefined) return row.per_s;
      const broker = state.network?.brokers.find((each) => each.broker === this.broker);
      return broker?.up ? (broker.rates.delivered ?? 0) * row.share : 0;
    };
    const found = [
      { text: "Subscriber", cell: (t) => el("span", { class: "id" }, t.client) },
      { text: "Filter", cell: (t) => el("code", { class: "filter" }, t.filter || "(it has ended)") },
      { text: "About", number: true, cell: (t) => `${short(Math.round(perS(t) * 10) / 10)}/s` },
    ];
    if (this.broker !== ALL) found.push({ text: "Share", number: true, cell: (t) => `${(100 * t.share).toFixed(1)} %` });
    return found;
  }
}

export function top(main, broker) {
  const list = new Top(main, "subscriptions", "Top subscriptions by deliveries", "top", broker);
  list.place.before(el("p", { class: "hint" }, "Estimated from a sample of the deliveries of about the last half minute."));
  return () => list.end();
}

// --- tables --------------------------------------------------------------------------------------

class Rows extends List {
  key(row) { return JSON.stringify(row); }
  get together() { return false; }

  more() {
    const broker = state.network.brokers.find((each) => each.broker === this.broker);
    const names = Object.entries(broker?.tables ?? {});
    if (!names.some(([name]) => name === this.name) && names.length) this.name = names[names.length > 1 ? 1 : 0][0];
    return [choice("Table", names.map(([name, rows]) => [name, `${name} (${short(rows)})`]), this.name, (name) => {
      location.hash = `#/tables/${encodeURIComponent(this.broker)}/${encodeURIComponent(name)}`;
    })];
  }

  columns(page) {
    return page.columns.map((name) => ({
      text: name,
      cell: (row) => (typeof row[name] === "string" ? el("code", { class: "filter" }, row[name]) : String(row[name])),
      number: typeof page.lines[0]?.[page.columns.indexOf(name)] === "number",
    }));
  }
}

export function tables(main, broker, name) {
  const list = new Rows(main, "table", "Tables", "tables", broker, name ?? "");
  return () => list.end();
}
