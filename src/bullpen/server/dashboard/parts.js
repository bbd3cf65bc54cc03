// The parts that pages share.

import { glyph, h, icon } from "./dom.js";
import { count, short } from "./format.js";
import { address, pageOf } from "./router.js";
import { toast } from "./toasts.js";

const TONES = { good: ["good", "offer"], warn: ["suspect", "warn"], lost: ["lost", "lost"], wait: ["queued", "ended"] };

/** The question of a page and its answer in one sentence; `answer` is a list of text and nodes. */
export function lead(question, tone, answer, ...actions) {
  const [name, colour] = TONES[tone] || TONES.wait;
  const shown = actions.filter(Boolean);
  return h("div", { class: "lead", key: "lead" },
    h("div", null, h("p", { class: "question" }, question), h("p", { class: "answer" }, glyph(name, colour), h("span", null, answer))),
    shown.length ? h("div", { class: "actions" }, shown) : null);
}

export function panel({ title, note, end, footer, extra = "", key }, ...content) {
  return h("section", { class: "panel " + extra, key: key || title },
    title ? h("header", null, h("h2", null, title), note ? h("span", { class: "quiet cut" }, note) : null, end ? h("span", { class: "end" }, end) : null) : null,
    content,
    footer ? h("footer", null, footer) : null);
}

/** A table. A column is its name, or [name, class]; a row is a list of cells, or { key, href, cells }. With the shape
    `cards`, a row becomes a card in a narrow window. */
export function table(columns, rows, caption, shape = "") {
  const heads = columns.map((one) => (Array.isArray(one) ? one : [one, ""]));
  return h("div", { class: "scroll-x" },
    h("table", { "aria-label": caption, class: shape },
      h("thead", null, h("tr", null, heads.map(([name, kind]) => h("th", { class: kind, scope: "col" }, name)))),
      h("tbody", null, rows.map((row) => {
        const { key, href, cells, kind } = Array.isArray(row) ? { cells: row } : row;
        return h("tr", { key, class: kind, "data-open": href, on: href ? { click: opens } : null },
          cells.map((cell, n) => h("td", { class: heads[n]?.[1], "data-name": shape ? heads[n]?.[0] : null }, cell)));
      }))));
}

function opens(event) {
  if (!event.target.closest("a, button") && !String(getSelection())) location.hash = event.currentTarget.dataset.open;
}

export function facts(entries) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, shown.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]));
}

/** An id as a link to its page. */
export function idLink(id, kind = "", { whole = false, focusable = true } = {}) {
  if (!id) return h("span", { class: "quiet" }, "–");
  return h("a", { class: "id", href: address(pageOf(id, kind), id), title: id, tabindex: focusable ? null : "-1" }, whole ? id : short(id));
}

/** A command that asks the same in a terminal, with a button that copies it. */
export function command(text) {
  return h("span", { class: "command" }, h("code", null, text), copyButton(text, "Copy the command"));
}

export function copyButton(text, label) {
  return h("button", { type: "button", class: "icon-button small", "aria-label": label + ": " + text, title: label, on: { click: () => copy(text) } }, icon("copy"));
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("good", "Copied.");
  } catch {
    toast("warn", "The browser does not allow copying here: " + text);
  }
}

/** Buttons of which one is chosen; `also` says which others are. */
export function chips(entries, chosen, choose, label, also = () => false) {
  return h("div", { class: "chips", role: "group", "aria-label": label }, entries.map((one) =>
    one === null ? h("span", { class: "gap" }) :
      h("button", { type: "button", class: "chip", key: one.value, "aria-pressed": String(one.value === chosen || also(one.value)), on: { click: () => choose(one.value) } },
        one.glyph ? glyph(one.glyph, one.tone || one.glyph) : null, one.name,
        one.count === undefined ? null : h("span", { class: "count" }, count(one.count)))));
}

export function filterField(value, change, placeholder) {
  return h("input", { key: "filter", class: "field filter", id: "filter", type: "search", value, placeholder, "aria-label": placeholder, autocomplete: "off", spellcheck: "false", on: { input: (event) => change(event.target.value) } });
}

/** What would appear here, and the command that makes it appear. */
export function empty(title, text, ...commands) {
  return h("div", { class: "empty", key: "empty" }, h("h2", null, title), text ? h("p", null, text) : null, commands.map((one) => (typeof one === "string" ? command(one) : one)));
}

export function bones(label = "Loading") {
  return h("div", { class: "bones", key: "bones", role: "img", "aria-label": label }, h("div", { class: "bone short" }), h("div", { class: "bone" }), h("div", { class: "bone tall" }), h("div", { class: "bone" }));
}

/** What stands in place of a resource that has no answer yet, or whose answer is an error. Null if it has one. */
export function unanswered(resource, what) {
  if (resource.answer) return null;
  if (!resource.error) return h("div", { class: "inside", key: "loading" }, bones());
  return h("div", { class: "inside", key: "error" }, problem(resource.error, what));
}

export function problem(error, what) {
  if (error.unavailable) return h("p", { class: "quiet" }, `Not available: this server does not report ${what}. A newer version of Bullpen does.`);
  if (error.status === 403) return h("p", { class: "quiet" }, "Your token does not allow this: " + error.message + ".");
  return h("p", null, h("span", { class: "error" }, error.message), error.remedy ? " " + error.remedy : "");
}

export function unknown(kind, id) {
  return h("section", { class: "panel", key: "unknown" }, empty(`No ${kind} ${id} is known`,
    "It was never in this pool, or its record was removed: a record stays for timings.purge after its end, one hour unless that is set.", "bullpen why " + quoted(id)));
}

/** As a shell reads it. */
export const quoted = (id) => (/^[\w@%+=:,./-]+$/.test(id) ? id : "'" + id.replace(/'/g, "'\\''") + "'");

export const bold = (text) => h("b", null, text);
