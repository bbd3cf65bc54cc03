// A list of any length: about as many rows as the window shows, moved and filled again while it scrolls.
//
// Rows that changed are drawn in the next frame. The order is made again at most once a second, and never while the
// pointer is over the list, so that no row moves away from under it.

import { h } from "./dom.js";
import { touched } from "./store.js";

const BEYOND = 6; // rows above and below the window
const SORT_EVERY = 1000; // milliseconds

export class List {
  /** `row()` makes { node, fill(id, seconds) }; `order()` returns the ids in their order; `open(id)` opens one. */
  constructor({ label, kind, columns, row, order, open }) {
    Object.assign(this, { row, order, open });
    this.ids = [];
    this.rows = [];
    this.top = 0;
    this.height = 0;
    this.high = 34;
    this.chosen = null;
    this.sortedAt = 0;
    this.wanted = true;
    this.space = h("div", { class: "grid-space", role: "rowgroup" });
    const head = h("div", { role: "rowgroup" }, h("div", { class: "cells-row grid-head", role: "row", "aria-rowindex": "1" }, columns.map(([name, extra]) => h("span", { role: "columnheader", class: extra }, name))));
    this.scroller = h("div", { class: "grid-rows", role: "grid", tabindex: "0", "aria-label": label, "aria-rowcount": "1" }, head, this.space);
    this.node = h("div", { class: "grid-box " + kind, key: "list" }, this.scroller);
    this.node.holdsItself = true;
    this.scroller.addEventListener("scroll", () => { this.top = this.scroller.scrollTop; this.soon(); }, { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.node.addEventListener("pointerenter", () => (this.over = true));
    this.node.addEventListener("pointerleave", () => (this.over = false));
    this.observer = new ResizeObserver(() => this.measure());
    this.observer.observe(this.scroller);
  }

  measure() {
    this.height = this.scroller.clientHeight;
    this.high = parseFloat(getComputedStyle(this.scroller).getPropertyValue("--row")) || 34;
    this.headHigh = this.scroller.firstChild.offsetHeight;
    for (const one of this.rows) one.index = -1;
    this.rowsHigh = null;
    this.lay();
  }

  soon() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.lay();
    });
  }

  /** Something changed: `again` makes the order at once, as after a filter was changed. */
  refresh(again = false) {
    this.wanted = true;
    if (again) this.sortedAt = 0;
    const now = performance.now();
    if (this.wanted && (again || this.ids.length === 0 || (!this.over && now - this.sortedAt > SORT_EVERY))) {
      this.sortedAt = now;
      this.wanted = false;
      this.ids = this.order();
      this.scroller.setAttribute("aria-rowcount", String(this.ids.length + 1));
      this.sized();
      this.lay();
    } else for (const one of this.rows) if (one.id && touched.has(one.id)) one.fill(one.id);
  }

  tick() {
    for (const one of this.rows) if (one.id) one.fill(one.id);
    this.refresh();
  }

  /** As high as its rows, or as the window. */
  sized() {
    const rows = this.ids.length * this.high;
    if (rows === this.rowsHigh) return;
    this.rowsHigh = rows;
    this.space.style.height = rows + "px";
    this.node.style.height = rows + (this.headHigh ?? 34) + 2 + "px";
  }

  lay() {
    if (!this.height) return;
    this.sized();
    const first = Math.max(0, Math.floor(this.top / this.high) - BEYOND);
    const shown = Math.min(this.ids.length, Math.ceil(this.height / this.high) + 2 * BEYOND);
    while (this.rows.length < shown) this.add();
    const span = this.rows.length;
    for (let place = 0; place < span; place++) {
      const index = first + ((((place - first) % span) + span) % span);
      const row = this.rows[place];
      const id = this.ids[index];
      if (id === undefined) {
        row.node.hidden = true;
        row.index = -1;
        row.id = null;
        continue;
      }
      if (row.index !== index) {
        row.index = index;
        row.node.style.transform = `translateY(${index * this.high}px)`;
        row.node.setAttribute("aria-rowindex", String(index + 2));
      }
      if (row.id !== id) {
        row.id = id;
        row.node.hidden = false;
        row.fill(id);
      }
      const isChosen = id === this.chosen;
      row.node.classList.toggle("chosen", isChosen);
      if (isChosen) this.scroller.setAttribute("aria-activedescendant", row.node.id);
    }
  }

  add() {
    const row = this.row();
    row.index = -1;
    row.node.classList.add("cells-row", "grid-row");
    row.node.setAttribute("role", "row");
    row.node.id = "row-" + this.rows.length;
    row.node.addEventListener("click", (event) => {
      if (event.target.closest("a, button") || !row.id) return;
      this.choose(row.id);
      this.open(row.id);
    });
    this.rows.push(row);
    this.space.append(row.node);
  }

  choose(id) {
    this.chosen = id;
    this.lay();
  }

  step(by) {
    if (!this.ids.length) return;
    const from = this.ids.indexOf(this.chosen);
    const to = from < 0 ? (by > 0 ? 0 : this.ids.length - 1) : Math.max(0, Math.min(this.ids.length - 1, from + by));
    this.chosen = this.ids[to];
    const y = to * this.high;
    const seen = this.height - (this.headHigh || 0);
    if (y < this.top) this.scroller.scrollTop = y;
    else if (y + this.high > this.top + seen) this.scroller.scrollTop = y + this.high - seen;
    this.top = this.scroller.scrollTop;
    this.lay();
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.height / this.high) - 2);
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      this.step(Math.abs(by) === Infinity ? Math.sign(by) * this.ids.length : by);
    } else if (event.key === "Enter" && this.chosen && event.target === this.scroller) this.open(this.chosen);
  }

  close() {
    this.observer.disconnect();
  }
}
