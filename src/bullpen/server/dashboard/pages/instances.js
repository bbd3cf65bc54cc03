// Instances: where is my runner, and is it alive?

import { setClass, setText, h, slot } from "../dom.js";
import { count, plural, short, until } from "../format.js";
import { List } from "../list.js";
import { leaseBar, leaseOf, stateOf, WORD } from "../marks.js";
import { bold, chips, empty, filterField, lead } from "../parts.js";
import { address, go, keep } from "../router.js";
import { classes, departed, GROUPS, instances, silent, total, touched } from "../store.js";

const RANK = { lost: 0, suspect: 1, leaving: 2 };
const ORDER = { created: 3, claimed: 4, cleaning: 5, ended: 6, running: 7, offer: 8 };
const COLUMNS = [["State"], ["Instance"], ["Class", "middle"], ["Machine", "middle"], ["Run"], ["Lease"], ["Until", "middle"], ["Trust domain", "wide"], ["Owes", "wide"]];

export default function page(context) {
  let state = context.query.get("state") || "";
  let of = context.query.get("class") || "";
  let text = context.query.get("q") || "";

  const fits = (one) =>
    (!of || one.resourceClass === of) &&
    (!state || (state === "silent" ? Boolean(one.trouble) && one.trouble !== "leaving" : one.group === state)) &&
    (!text || [one.id, one.runId, one.repository, one.instanceType, one.resourceClass, one.trustDomain].some((part) => part && part.toLowerCase().includes(text)));

  const list = new List({
    label: "Instances",
    kind: "of-instances",
    columns: COLUMNS,
    row: () => row(context),
    open: (id) => go("instances", id),
    order: () => {
      const found = [];
      for (const one of [...instances.values(), ...departed.values()]) if (fits(one)) found.push(one);
      return found.sort(before).map((one) => one.id);
    },
  });
  const filtered = (values) => {
    keep(values);
    list.refresh(true);
    list.scroller.scrollTop = 0;
    context.redraw();
  };

  return {
    list,
    close: () => list.close(),
    draw() {
      const quiet = [...silent.keys()].filter((id) => instances.has(id)).length;
      const states = [{ value: "", name: "All", count: instances.size }, ...GROUPS.map((group) => ({ value: group, name: WORD[group], glyph: group, count: total[group] })), { value: "silent", name: "Silent", glyph: "suspect", tone: "warn", count: quiet }];
      const names = [...classes.keys()].sort().map((name) => ({ value: "class:" + name, name, count: GROUPS.reduce((sum, group) => sum + classes.get(name)[group], 0) }));
      if (!list.ids.length || touched.size) list.refresh();
      const sentence = instances.size
        ? [bold(plural(instances.size, "instance")), ": ", bold(count(total.running)), " serve runs, ", bold(count(total.offer)), " are on offer, ", quiet ? [bold(count(quiet)), " are silent."] : "none is silent."]
        : "There are no instances.";
      return [
        lead("Where is my runner, and is it alive?", quiet ? "warn" : instances.size ? "good" : "wait", sentence,
          filterField(text, (value) => { text = value.trim().toLowerCase(); filtered({ q: text }); }, "Filter by id, run, repository, type")),
        h("div", { key: "chips", class: "chip-lines" },
          chips([...states, ...(names.length > 1 ? [null, ...names] : [])], state, (value) => {
            if (value.startsWith("class:")) of = of === value.slice(6) ? "" : value.slice(6);
            else state = value;
            filtered({ state, class: of });
          }, "States and classes", (value) => value === "class:" + of && of !== "")),
        !instances.size && !departed.size ? h("section", { class: "panel", key: "none" }, empty("No instances", "They appear here as soon as a run asks for some.", "bullpen provision --run-id 4711 --count 3"))
          : !list.ids.length ? h("section", { class: "panel", key: "none" }, empty("Nothing fits", "No instance fits the filter.",
            h("button", { type: "button", class: "button", on: { click: () => { state = of = text = ""; document.getElementById("filter").value = ""; filtered({ state, class: of, q: text }); } } }, "Clear the filters"))) : null,
        list.ids.length ? slot(list.node) : null,
      ];
    },
  };
}

function before(a, b) {
  return (RANK[a.trouble] ?? ORDER[a.group]) - (RANK[b.trouble] ?? ORDER[b.group]) || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

function row(context) {
  const mark = h("span", { class: "mark", role: "gridcell" });
  const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  drawing.setAttribute("viewBox", "0 0 12 12");
  drawing.setAttribute("aria-hidden", "true");
  drawing.append(use);
  const word = h("span");
  mark.append(drawing, word);
  const id = h("a", { class: "id", tabindex: "-1" });
  const of = h("span", { role: "gridcell", class: "n0 middle" });
  const machine = h("span", { role: "gridcell", class: "n0 middle mono" });
  const run = h("a", { class: "id", tabindex: "-1" });
  const repository = h("span", { class: "quiet" });
  const lease = leaseBar();
  const left = h("span", { role: "gridcell", class: "n0 middle" });
  const trust = h("span", { role: "gridcell", class: "n0 wide" });
  const debt = h("span", { role: "gridcell", class: "n0 wide" });
  mark.classList.add("n1");
  const node = h("div", null, mark, h("span", { role: "gridcell", class: "n3" }, id), of, machine, h("span", { role: "gridcell", class: "n4" }, run, " ", repository), h("span", { role: "gridcell", class: "n2" }, lease.node), left, trust, debt);
  let drawn = "";
  return {
    node,
    fill(key) {
      const one = instances.get(key) || departed.get(key);
      if (!one) return setText(word, "Gone");
      const now = context.now();
      const state = stateOf(one);
      if (drawn !== state.glyph) {
        drawn = state.glyph;
        use.setAttribute("href", "#g-" + state.glyph);
        drawing.setAttribute("class", "glyph tone-" + state.tone);
      }
      setClass(mark, "mark n1 " + state.serious);
      setText(word, state.word);
      if (id.title !== one.id) {
        id.href = address("instances", one.id);
        id.title = one.id;
        setText(id, one.id);
      }
      setText(of, one.resourceClass);
      setText(machine, one.instanceType + (one.usageClass === "spot" ? " spot" : ""));
      if (one.runId) run.setAttribute("href", address("runs", one.runId));
      else run.removeAttribute("href");
      setText(run, one.runId ? short(one.runId) : "–");
      setText(repository, one.repository || "");
      lease.set(leaseOf(one, now));
      setText(left, one.group === "ended" ? "–" : until(one.threshold, now));
      setText(trust, one.trustDomain || "never used");
      setText(debt, one.owes ? one.owes.kind.replace(/-/g, " ") : "–");
    },
  };
}
