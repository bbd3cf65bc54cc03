// Short answers to what you did yourself.

import { glyph, h } from "./dom.js";

const STAYS = 6000; // milliseconds

export function toast(tone, text) {
  const [name, colour] = { good: ["good", "offer"], warn: ["suspect", "warn"], lost: ["failed", "lost"] }[tone];
  const node = h("div", { class: "toast" }, glyph(name, colour), h("span", null, text));
  document.getElementById("toasts").append(node);
  setTimeout(() => node.remove(), STAYS);
}
