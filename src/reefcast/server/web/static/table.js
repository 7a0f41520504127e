// Tables that are renewed in place: focus stays where it is, and at phone width rows become cards.

import { el } from "./dom.js";

/** A table. `columns`: {name, text, cell(row), number?, order?}; `key(row)`: tells rows apart;
 *  `ordered(order)`: called when a heading is pressed that has an `order`. */
export class Table {
  constructor(caption, columns, key, ordered = null) {
    this.columns = columns;
    this.key = key;
    this.ordered = ordered;
    this.body = el("tbody");
    this.heads = columns.map((column) => this.head(column));
    this.node = el(
      "div",
      { class: "scroll" },
      el(
        "table",
        {},
        el("caption", { class: "hidden" }, caption),
        el("thead", {}, el("tr", {}, this.heads)),
        this.body,
      ),
    );
  }

  head(column) {
    const sorts = column.order !== undefined && this.ordered !== null;
    const inside = sorts
      ? el("button", { type: "button", class: "sort", onclick: () => this.ordered(column.order) }, column.text)
      : column.text;
    return el("th", { scope: "col", class: column.number ? "number" : null }, inside);
  }

  /** Show by which column rows are sorted. */
  mark(order, descending) {
    this.columns.forEach((column, at) => {
      const sorted = column.order !== undefined && column.order === order;
      if (sorted) this.heads[at].setAttribute("aria-sort", descending ? "descending" : "ascending");
      else this.heads[at].removeAttribute("aria-sort");
    });
  }

  show(rows, none = "nothing here") {
    const focused = this.focused();
    const shown = rows.map((row) => this.row(row));
    if (!shown.length) {
      shown.push(el("tr", {}, el("td", { class: "none", colspan: this.columns.length }, none)));
    }
    this.body.replaceChildren(...shown);
    if (focused !== null) this.focus(focused);
  }

  row(row) {
    const cells = this.columns.map((column) => {
      const cell = column.cell(row);
      const attributes = { "data-label": column.text, class: column.number ? "number" : null };
      return el("td", attributes, ...(Array.isArray(cell) ? cell : [cell]));
    });
    return el("tr", { "data-key": this.key(row) }, cells);
  }

  focused() {
    const active = document.activeElement;
    if (!this.body.contains(active)) return null;
    const row = active.closest("tr");
    return [row.dataset.key, [...row.querySelectorAll("a, button")].indexOf(active)];
  }

  focus([key, at]) {
    const row = [...this.body.children].find((each) => each.dataset.key === key);
    row?.querySelectorAll("a, button")[at]?.focus({ preventScroll: true });
  }
}

/** Sort rows of the page itself. */
export function sorted(rows, of, descending) {
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    return sign * (x < y ? -1 : x > y ? 1 : 0);
  });
}
