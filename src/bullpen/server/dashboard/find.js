// The find box: by the beginning or a part of an id among what the page knows, and any id whole at the server.

import { glyph, h, paint } from "./dom.js";
import { stateOf } from "./marks.js";
import { address, pageOf } from "./router.js";
import { instances, jobs, runs } from "./store.js";

const MOST = 8;

export function setUp() {
  const input = document.getElementById("find");
  const list = document.getElementById("found");
  let hits = [];
  let at = 0;

  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
    document.body.classList.remove("finding");
  };
  const open = (hit) => {
    if (!hit) return;
    input.value = "";
    close();
    input.blur();
    location.hash = address(pageOf(hit.id, hit.kind), hit.id);
  };
  const draw = () => {
    paint(list, hits.map((hit, n) => h("div", { class: "hit", role: "option", id: "hit-" + n, key: hit.kind + hit.id, "aria-selected": String(n === at), on: { click: () => open(hit) } },
      glyph(hit.glyph, hit.tone), h("span", { class: "id cut" }, hit.id), h("span", { class: "quiet cut" }, hit.word))));
    list.hidden = !hits.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (hits.length) input.setAttribute("aria-activedescendant", "hit-" + at);
  };
  input.addEventListener("input", () => {
    hits = search(input.value.trim());
    at = 0;
    draw();
  });
  input.addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) {
      event.preventDefault();
      at = Math.max(0, Math.min(hits.length - 1, at + by));
      draw();
    } else if (event.key === "Enter") open(hits[at]);
    else if (event.key === "Escape") {
      input.value = "";
      close();
      document.getElementById("main").focus();
    }
  });
  input.addEventListener("blur", () => setTimeout(close, 150));
  document.getElementById("find-open").addEventListener("click", () => {
    document.body.classList.add("finding");
    input.focus();
  });
}

function search(text) {
  if (!text) return [];
  const found = [];
  const add = (hit) => found.length < MOST && found.push(hit);
  for (const id of runs.keys()) if (id.includes(text)) add({ id, kind: "run", glyph: "running", tone: "running", word: "run" });
  for (const one of instances.values()) {
    if (found.length >= MOST) break;
    if (!one.id.includes(text)) continue;
    const state = stateOf(one);
    add({ id: one.id, kind: "instance", glyph: state.glyph, tone: state.tone, word: state.word });
  }
  for (const one of jobs.values()) {
    if (found.length >= MOST) break;
    if (one.id.includes(text) || one.name.includes(text)) add({ id: one.id, kind: "job", glyph: "queued", tone: "ended", word: "job " + one.name });
  }
  const id = /^https?:\/\//.test(text) ? text.replace(/[?#].*$/, "") : text;
  if (!found.some((hit) => hit.id === id)) found.push({ id, kind: "", glyph: "queued", tone: "ended", word: "ask the server" });
  return found;
}
