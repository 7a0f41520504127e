// Wishes of who has the right to them: each is confirmed, and answered.

import { post } from "./api.js";
import { el, notice } from "./dom.js";

/** Ask whether broker is really to have this wish (or what `wish()` returns), and say how it went.
 *  `done` is called when it was met. */
export function confirmWish(title, text, broker, wish, ...fields) {
  const done = typeof fields[0] === "function" ? fields.shift() : () => {};
  const dialog = document.getElementById("dialog");
  const said = el("div");
  const close = () => dialog.close();
  const send = async (event) => {
    event.preventDefault();
    try {
      await post("wish", { broker, wish: typeof wish === "function" ? wish() : wish });
      close();
      done();
    } catch (error) {
      said.replaceChildren(notice("bad", error.message));
    }
  };
  dialog.replaceChildren(
    el("form", { class: "form", onsubmit: send },
      el("h2", { id: "dialog-title" }, `${title} (broker ${broker})`),
      el("p", {}, text),
      ...fields,
      said,
      el("div", { class: "actions" },
        el("button", { type: "submit", class: "primary" }, title),
        el("button", { type: "button", autofocus: !fields.length, onclick: close }, "Cancel"))),
  );
  dialog.showModal();
}
