// Dialogs: help, the menu of a narrow window, and the confirmation of an action.

import { h, icon, paint } from "./dom.js";

const dialog = () => document.getElementById("dialog");
let draw = null;

/** Show a dialog whose content `view` describes; `redraw()` brings it up to date. */
export function show(title, view) {
  const node = dialog();
  draw = () => paint(node,
    h("header", null, h("h2", { id: "dialog-title" }, title),
      h("button", { type: "button", class: "icon-button", "aria-label": "Close", on: { click: close } }, icon("close"))),
    view());
  node.replaceChildren();
  draw();
  if (!node.open) node.showModal();
  node.querySelector("[autofocus], input, .inside button, .inside a")?.focus();
}

export function redraw() {
  if (dialog().open && draw) draw();
}

export function close() {
  dialog().close();
  draw = null;
}

export const isOpen = () => dialog().open;

export function setUp() {
  dialog().addEventListener("click", (event) => event.target === dialog() && close());
}

/** Something that must not be missed. */
export function say(title, text) {
  show(title, () => [h("div", { class: "inside" }, h("p", null, text)), h("footer", null, h("button", { type: "button", class: "button first", on: { click: close } }, "Close"))]);
}

export function help(pages) {
  const general = [["j k", "next and previous row"], ["Enter", "open"], ["Esc", "back, or close"], ["/", "find"], ["f", "filter the list"], ["t", "light, dark, or as the system"], ["?", "these shortcuts"], ["← →", "read a chart"]];
  const places = pages.filter((one) => one.key).map((one) => ["g " + one.key, one.name]);
  const line = ([keys, what]) => h("li", null, h("span", null, keys.split(" ").map((key) => [h("kbd", null, key), " "])), what);
  show("Keyboard shortcuts", () => h("div", { class: "inside" }, h("ul", { class: "shortcuts" }, [...general, ...places].map(line))));
}

export function menu(entries) {
  show("More", () => h("div", { class: "inside" }, h("div", { class: "menu" }, entries.map((one) =>
    one.href ? h("a", { href: one.href, on: { click: close } }, icon(one.icon), one.name)
      : h("button", { type: "button", on: { click: () => { close(); one.run(); } } }, icon(one.icon), one.name)))));
}
