// Making elements, and writing figures. Text from the network only ever becomes text nodes.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: properties that begin with "on" are listeners, null ones are left out. */
export function el(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

/** Make an element of a drawing. */
export function svg(name, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, name), properties, children);
}

function fill(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "selected") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((each) => each !== null && each !== undefined));
  return node;
}

const PARTS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** Write a number shortly: 12.3k. */
export function short(value) {
  const number = Number(value ?? 0);
  for (const [size, unit] of PARTS) {
    if (Math.abs(number) >= size) {
      const part = number / size;
      return `${part >= 100 ? part.toFixed(0) : part.toFixed(1)}${unit}`;
    }
  }
  return Number.isInteger(number) ? String(number) : number.toFixed(1);
}

export function bytes(value) {
  const text = short(value);
  const unit = /[GMk]$/.test(text) ? text.at(-1) : "";
  return `${text.slice(0, text.length - unit.length)}\u00a0${unit}B`;
}

export function seconds(value) {
  const s = Math.max(0, Number(value));
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 90) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

/** Write a duration between two times in microseconds. */
export function micros(value) {
  const us = Number(value);
  if (Math.abs(us) < 1000) return `${Math.round(us)} µs`;
  if (Math.abs(us) < 1e6) return `${(us / 1000).toFixed(1)} ms`;
  return `${(us / 1e6).toFixed(2)} s`;
}

export function clock(us) {
  const at = new Date(us / 1000);
  const two = (n, digits = 2) => String(n).padStart(digits, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${two(at.getMilliseconds(), 3)}`;
}

export function plural(count, noun) {
  return `${short(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** A badge: a state in a word, with a colour that says the same. */
export function badge(kind, text) {
  return el("span", { class: `badge ${kind}` }, text);
}

export function heading(text, ...more) {
  return el("div", { class: "heading" }, el("h1", {}, text), ...more);
}

export function notice(kind, ...text) {
  return el("p", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, ...text);
}

export function link(hash, text) {
  return el("a", { href: hash }, text);
}

export function brokerLink(name) {
  return link(`#/broker/${encodeURIComponent(name)}`, name);
}

/** Make a choice among `options`; [value, text] each. */
export function choice(label, options, value, changed) {
  const select = el(
    "select",
    { onchange: (event) => changed(event.target.value) },
    options.map(([each, text]) => el("option", { value: each, selected: each === value }, text)),
  );
  return el("label", { class: "field" }, el("span", {}, label), select);
}

export function tile(label, value, kind = "", note = "") {
  return el(
    "div",
    { class: `tile ${kind}` },
    el("span", { class: "label" }, label),
    el("strong", {}, value),
    el("span", { class: "note" }, note || "\u00a0"),
  );
}
