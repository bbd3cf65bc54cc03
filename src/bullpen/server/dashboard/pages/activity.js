// Activity: what did Bullpen do, and why? New actions wait behind a button while you read.

import { ask } from "../api.js";
import { glyph, h, setClass, setText, slot } from "../dom.js";
import { count, plural, short, time } from "../format.js";
import { List } from "../list.js";
import { bold, bones, chips, empty, filterField, lead, problem } from "../parts.js";
import { address, keep, pageOf } from "../router.js";
import { toast } from "../toasts.js";

const PAGE = 200;
const COLUMNS = [["Time"], ["By", "middle"], ["Did"], ["Subject"], ["Reason"]];
/** Of `serve on host (4711)/reap` the loop, of `release of 4711` the command. */
const controller = (by) => (by.includes("/") ? by.slice(by.lastIndexOf("/") + 1) : by.split(" ")[0]);
const RECORD = /^(i|p|j|local)-[0-9a-f]{6,}/;

export default function page(context) {
  let by = context.query.get("by") || "";
  let text = context.query.get("q") || "";
  let actions = []; // newest first, as far as they were asked for
  let next = "";
  let more = false;
  let typing = 0;
  const path = () => `/v1/activity?limit=${PAGE}` + (text ? "&q=" + encodeURIComponent(text) : "");
  const newest = context.resource(path(), 3);

  const key = (one) => `${one.at} ${one.by} ${one.did} ${one.subject} ${one.reason}`;
  const fits = (one) => !by || (by === "trouble" ? one.trouble : controller(one.by) === by);
  let found = new Map();
  const list = new List({
    label: "Activity", kind: "of-activity", columns: COLUMNS,
    row: () => row(context, (id) => found.get(id)),
    open: (id) => { const one = found.get(id); if (one && RECORD.test(one.subject)) location.hash = address(pageOf(one.subject), one.subject); },
    order: () => [...found.keys()],
  });
  const show = () => {
    found = new Map(actions.filter(fits).map((one) => [key(one), one]));
    list.refresh(true);
  };
  const waiting = () => {
    const answer = newest.answer?.actions || [];
    if (!actions.length) return answer.length;
    const known = key(actions[0]);
    const at = answer.findIndex((one) => key(one) === known);
    return at < 0 ? answer.length : at;
  };
  const take = () => {
    actions = newest.answer?.actions || [];
    next = newest.answer?.next || "";
    show();
  };
  const older = async () => {
    if (!next || more) return;
    more = true;
    const asked = path();
    try {
      const answer = await ask(asked + "&before=" + encodeURIComponent(next));
      if (asked !== path()) return; // another filter, meanwhile
      actions = [...actions, ...answer.actions];
      next = answer.next || "";
      show();
    } catch (error) {
      toast("lost", "Older actions could not be read: " + error.message);
    } finally {
      more = false;
      context.redraw();
    }
  };
  list.scroller.addEventListener("scroll", () => { if (list.top + list.height > list.ids.length * list.high - 400) older(); }, { passive: true });

  return {
    list,
    close: () => list.close(),
    draw() {
      if (!newest.answer && newest.error) return [lead("What did Bullpen do, and why?", "wait", "Its actions are not known."), problem(newest.error, "what it did")];
      if (!newest.answer) return bones();
      const fresh = waiting();
      if (fresh && (list.top < 40 && !list.over)) take();
      const kinds = new Map();
      for (const one of actions) kinds.set(controller(one.by), (kinds.get(controller(one.by)) || 0) + 1);
      const trouble = actions.filter((one) => one.trouble).length;
      const late = waiting();
      return [
        lead("What did Bullpen do, and why?", trouble ? "warn" : actions.length ? "good" : "wait",
          actions.length ? [bold(plural(actions.length, "action")), ` since ${time(actions.at(-1).at, context.now())}, `, trouble ? [bold(count(trouble)), " of them because something went wrong."] : "none because something went wrong."] : "Nothing is recorded yet.",
          late ? h("button", { type: "button", class: "button", on: { click: () => { list.scroller.scrollTop = 0; take(); context.redraw(); } } }, plural(late, "new action")) : null,
          filterField(text, (value) => { clearTimeout(typing); typing = setTimeout(() => { text = value.trim(); keep({ q: text }); actions = []; newest.ask(path()); }, 300); }, "Filter by subject or reason")),
        h("div", { key: "chips", class: "chip-lines" }, chips([{ value: "", name: "All", count: actions.length }, { value: "trouble", name: "Trouble", glyph: "suspect", tone: "warn", count: trouble }, ...[...kinds].sort().map(([name, number]) => ({ value: name, name, count: number }))], by, (value) => { by = value; keep({ by }); show(); context.redraw(); }, "Who did it")),
        !actions.length ? h("section", { class: "panel", key: "none" }, text ? empty("Nothing fits", "No action fits the filter.") : empty("No actions yet", "Each action of refresh, of the loops of serve and of an operator is recorded with its reason.", "bullpen refresh"))
          : !list.ids.length ? h("section", { class: "panel", key: "none" }, empty("Nothing fits", "No action fits the filter.", h("button", { type: "button", class: "button", on: { click: () => { by = ""; keep({ by }); show(); context.redraw(); } } }, "Show all"))) : slot(list.node),
      ];
    },
  };
}

function row(context, get) {
  const at = h("time", { role: "gridcell", class: "n2" });
  const by = h("span", { role: "gridcell", class: "middle quiet n0" });
  const drawing = h("span", { class: "mark" });
  const did = h("span");
  const cell = h("span", { role: "gridcell", class: "mark n1" }, drawing, did);
  const subject = h("a", { class: "id", tabindex: "-1" });
  const reason = h("span", { role: "gridcell", class: "second n3" });
  return {
    node: h("div", null, at, by, cell, h("span", { role: "gridcell", class: "n4" }, subject), reason),
    fill(key) {
      const one = get(key);
      if (!one) return;
      setText(at, time(one.at, context.now()));
      at.title = one.at;
      setText(by, controller(one.by));
      by.title = one.by;
      setClass(cell, "mark n1 " + (one.trouble ? "warn" : ""));
      drawing.replaceChildren(...(one.trouble ? [glyph("suspect", "warn")] : one.isDone === false ? [glyph("wait", "ended")] : []));
      setText(did, one.did);
      setText(subject, RECORD.test(one.subject) ? short(one.subject) : one.subject);
      subject.title = one.subject;
      if (RECORD.test(one.subject)) subject.href = address(pageOf(one.subject), one.subject);
      else subject.removeAttribute("href");
      setText(reason, one.reason);
      reason.title = one.reason;
    },
  };
}
