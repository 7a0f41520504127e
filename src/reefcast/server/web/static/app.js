// The page: signing in, the views, and what comes live.

import { basic, get, onUnproved, show, stream } from "./api.js";
import { el, heading, notice } from "./dom.js";
import { heard, state } from "./state.js";
import { overview } from "./overview.js";
import { broker, brokers, links } from "./brokers.js";
import { clients, sessions, tables, top } from "./lists.js";
import { storages } from "./storages.js";
import { explain } from "./explain.js";
import { follow } from "./follow.js";

const VIEWS = {
  overview: ["Overview", overview],
  brokers: ["Brokers", brokers],
  links: ["Links", links],
  tables: ["Tables", tables],
  clients: ["Clients", clients],
  sessions: ["Sessions", sessions],
  storages: ["Storages", storages],
  top: ["Top subscriptions", top],
  explain: ["Explain", explain],
  follow: ["Follow", follow],
  broker: [null, broker],
};

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const live = document.getElementById("live");
let leave = () => {};
let listening = null;

nav.append(
  ...Object.entries(VIEWS)
    .filter(([, [text]]) => text !== null)
    .map(([name, [text]]) => el("a", { href: `#/${name}`, "data-view": name }, text)),
);

function place() {
  const [name, ...rest] = location.hash.replace(/^#\//, "").split("/");
  return [VIEWS[name] === undefined ? "overview" : name, rest.map(decodeURIComponent)];
}

/** Open the view that the address names; `moved`: by the one who looks. */
function open(moved) {
  leave();
  const [name, rest] = place();
  const [text, view] = VIEWS[name];
  for (const each of nav.children) {
    const here = each.dataset.view === name || (name === "broker" && each.dataset.view === "brokers");
    if (here) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  document.title = `${text ?? rest[0]} · ${state.me.network} · Reefcast`;
  main.replaceChildren();
  leave = view(main, ...rest) ?? (() => {});
  if (moved) main.focus({ preventScroll: true });
}

function say(text, good) {
  live.textContent = text;
  live.className = `live ${good ? "good" : "bad"}`;
  document.body.classList.toggle("stale", !good && state.network !== null);
}

/** Listen while the page is seen. */
function listen() {
  listening?.abort();
  listening = new AbortController();
  if (document.hidden) {
    say("paused", false);
    return;
  }
  const told = (name, data) => heard(data);
  stream("live", {}, listening.signal, told, say).catch((error) => {
    say("ended", false);
    if (error.status === 401) signIn(error.message);
    else main.replaceChildren(heading("The broker refuses"), notice("bad", error.message));
  });
}

function field(label, input) {
  return el("label", { class: "field" }, el("span", {}, label), input);
}

/** Ask who looks. */
function signIn(why = "") {
  listening?.abort();
  leave();
  leave = () => {};
  say("not signed in", false);
  const user = el("input", { name: "user", autocomplete: "username", autocapitalize: "none" });
  const password = el("input", { name: "password", type: "password", autocomplete: "current-password" });
  const token = el("input", { name: "token", type: "password", autocomplete: "off" });
  const send = (event) => {
    event.preventDefault();
    show(token.value ? `Bearer ${token.value.trim()}` : basic(user.value, password.value));
    begin();
  };
  main.replaceChildren(
    heading("Sign in"),
    el("p", {}, "This broker asks who looks: a user with the right ", el("code", {}, "status"), "."),
    ...(why ? [notice("bad", why)] : []),
    el(
      "form",
      { class: "card form", onsubmit: send },
      field("User", user),
      field("Password", password),
      field("or a token", token),
      el("button", { type: "submit", class: "primary" }, "Sign in"),
    ),
  );
  user.focus();
}

let shownOnce = false;

async function begin() {
  try {
    state.me = await get("me");
  } catch (error) {
    if (error.status === 401) signIn(shownOnce ? error.message : "");
    else {
      say("refused", false);
      main.replaceChildren(heading("The broker refuses"), notice("bad", error.message));
    }
    shownOnce = true;
    return;
  }
  const user = state.me.user ? `, ${state.me.user}` : "";
  document.getElementById("where").textContent = `${state.me.network} by ${state.me.broker}${user}`;
  open(false);
  listen();
}

onUnproved((why) => {
  if (state.me !== null) signIn(why);
});
window.addEventListener("hashchange", () => {
  if (state.me !== null) open(true);
});
document.addEventListener("visibilitychange", () => {
  if (state.me !== null) listen();
});
begin();
