// Sets: do the runner scale sets take their jobs?

import { h } from "../dom.js";
import { ago, count, length, plural, since } from "../format.js";
import { mark } from "../marks.js";
import { bold, bones, empty, idLink, lead, panel, table } from "../parts.js";
import { shared } from "../shell.js";

export default function page(context) {
  return {
    draw() {
      const now = context.now();
      if (!shared.status) return bones();
      const sets = shared.status.scaleSets;
      if (!sets.length)
        return [lead("Do the scale sets take their jobs?", "wait", "No scale set is configured."),
          h("section", { class: "panel", key: "none" }, empty("No scale sets", "With a runner scale set, GitHub assigns jobs to runners that the pool keeps ready. docs/github.md says how to configure one.", "bullpen doctor"))];
      const troubled = sets.filter((one) => one.why);
      const waiting = sets.reduce((sum, one) => sum + one.waiting, 0);
      const running = sets.reduce((sum, one) => sum + (one.running || 0), 0);
      return [
        lead("Do the scale sets take their jobs?", troubled.length ? "warn" : "good", [bold(plural(sets.length, "set")), ": ", bold(plural(running, "job")), running === 1 ? " runs, " : " run, ", bold(count(waiting)), waiting === 1 ? " waits. " : " wait. ", troubled.length ? [bold(troubled[0].name), ": ", troubled[0].why] : ""]),
        panel({ title: "Scale sets", note: "GitHub's numbers, as the process that listens heard them last" },
          table(["Set", ["State", "nowrap"], ["Class", "no-narrow"], ["Jobs assigned", "right"], ["Jobs run", "right"], ["Busy", "right no-narrow"], ["Idle", "right no-narrow"], ["Starting", "right no-narrow"], ["Cleaning", "right no-narrow"], ["Runners", "right no-narrow"], ["Waiting", "right"], "Listens"], sets.map((one) => ({
            key: one.name, kind: "top-aligned",
            cells: [idLink(one.name, "set", { whole: true }), one.why ? mark("suspect", "warn", one.state, "warn") : mark(one.state === "ready" ? "good" : "queued", one.state === "ready" ? "offer" : "ended", one.state), one.resourceClass, count(one.assigned), count(one.running), count(one.busy), count(one.idle), count(one.starting), count(one.cleaning), `${count(one.min)} to ${count(one.max)}`, one.waiting ? [bold(count(one.waiting)), one.waitsSince ? ", " + length(since(one.waitsSince, now)) : ""] : "0",
              h("div", null, h("span", { class: "mono" }, one.holder || "none"), one.heardAt ? h("div", { class: "quiet" }, "heard " + ago(one.heardAt, now)) : null, one.why ? h("div", { class: "ink-warn" }, one.why) : null)],
          })), "Scale sets")),
      ];
    },
  };
}
