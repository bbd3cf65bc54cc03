// Control: is the pool being kept?

import { pauseDialog, resumeDialog } from "../actions.js";
import { glyph, h } from "../dom.js";
import { ago, count, length, ms, plural, since, time, until } from "../format.js";
import { mark } from "../marks.js";
import { bold, bones, facts, idLink, lead, panel, problem, table } from "../parts.js";
import { may } from "../session.js";
import { shared } from "../shell.js";

const WHAT = { debts: "pays what records owe", sweep: "finds leases that ran out", reap: "ends what is overdue", warm: "keeps idle targets", reconcile: "compares machines, records and registrations", sources: "removes files that no job needs", history: "books the time of machines", activity: "stores what was done", health: "notes that this server lives", settings: "reads the settings file again", infrastructure: "keeps tables and queues", runs: "follows workflow runs at GitHub", sets: "listens to scale sets" };
const MOST = 100; // debts that the table shows

export default function page(context) {
  const asked = context.resource("/v1/control", 3);
  return {
    draw() {
      const now = context.now();
      const status = shared.status;
      const answer = asked.answer;
      if (!status || (!answer && !asked.error)) return bones();
      if (!answer && !asked.error.unavailable) return [problem(asked.error, "about its loops")];
      const loops = answer?.loops || Object.entries(status.loops).map(([name, alive]) => ({ name, process: "", alive, turns: [] }));
      const failing = new Map(status.failingLoops.map((one) => [one.loop, one]));
      const pauses = answer?.pauses || shared.pauses || [];
      const protection = answer?.protection || status.controls;
      const braked = protection.filter((one) => one.state === "held");
      const bad = loops.filter((one) => one.failing || failing.has(one.name) || one.alive === false);
      const sentence = [bad.length ? [bold(bad[0].name), bad.length > 1 ? ` and ${plural(bad.length - 1, "other loop")} fail. ` : " fails: " + (bad[0].error || failing.get(bad[0].name)?.error || "it does not run") + ". "] : ["All ", bold(plural(loops.length, "loop")), " turn. "],
        pauses.map((one) => [one.resourceClass ? ["Class ", bold(one.resourceClass)] : "The pool", " is paused: ", one.note, ". "]), braked.map((one) => [bold(one.name), ": losses are held back. "]), status.settings.refused ? ["The settings file is not applied. "] : ""];
      const processes = new Set(loops.map((one) => one.process)).size;
      return [
        lead("Is the pool being kept?", bad.length ? "lost" : pauses.length || braked.length || status.settings.refused ? "warn" : "good", sentence, may("operate") ? h("button", { type: "button", class: "button", on: { click: pauseDialog } }, "Pause…") : null),
        pauses.length ? panel({ title: "Paused", note: count(pauses.length) }, pauses.map((one) => h("div", { class: "list-row", key: one.resourceClass }, glyph("pause", "warn"), h("span", { class: "grow" }, bold(one.resourceClass || "the whole pool"), ": ", one.note, h("span", { class: "quiet" }, ` by ${one.by}, ${ago(one.since, now)}`)), may("operate") ? h("button", { type: "button", class: "button", on: { click: () => resumeDialog(one.resourceClass) } }, "Resume…") : null))) : null,
        h("div", { class: "columns", key: "columns" },
          h("div", null,
            panel({ title: "Loops", note: processes > 1 ? plural(processes, "process", "processes") : loops[0]?.process, footer: bad.length ? bad.map((one) => h("p", null, bold(one.name), ": ", one.error || failing.get(one.name)?.error || "it does not run")) : null }, loopTable(loops, failing, now)),
            answer ? debts(answer, now) : null),
          h("div", null,
            panel({ title: "Protection", note: "against mistaken losses" }, protection.map((one) => h("div", { class: "list-row", key: one.name }, glyph(one.state === "held" ? "brake" : "good", one.state === "held" ? "warn" : "offer"), h("span", { class: "grow" }, bold(one.name), h("div", { class: "quiet" }, one.why || (one.recoveredAt ? "heartbeats resumed " + ago(one.recoveredAt, now) : "losses are declared as they are found"))), h("span", { class: "nowrap" }, one.state === "held" ? "held since " + time(one.heldSince, now) : "on"))),
              protection.length ? null : h("p", { class: "inside quiet" }, "Nothing is held back.")),
            answer ? limits(answer.rateLimits, now) : null,
            answer?.runnerVersion ? panel({ title: "Runner version" }, h("div", { class: "inside" }, facts([["Version", answer.runnerVersion.version], ["Refused by GitHub", answer.runnerVersion.deadline ? h("span", { class: (ms(answer.runnerVersion.deadline) - now) / 86400000 < 7 ? "ink-warn" : "" }, "in " + until(answer.runnerVersion.deadline, now)) : null]]))) : null,
            panel({ title: "Store" }, h("div", { class: "inside" }, facts([
              ["Kind", answer?.store?.kind], ["Answers", answer?.store ? (answer.store.works ? mark("good", "offer", "yes") : mark("failed", "lost", "no", "lost")) : null],
              ["Offers", plural(status.pools.reduce((sum, one) => sum + one.tickets, 0), "ticket") + ", " + count(status.pools.reduce((sum, one) => sum + one.claimable, 0)) + " claimable"],
              ["Settings file", status.settings.file || "none"], ["Restart needed for", status.settings.restartNeeded.join(", ")], ["Refused", status.settings.refused ? h("span", { class: "ink-lost" }, status.settings.refused) : null],
            ]))),
            answer ? panel({ title: "Replicas", note: count(answer.replicas.length) }, answer.replicas.map((one) => h("div", { class: "list-row", key: one.process }, h("span", { class: "grow mono" }, one.process), h("span", { class: "quiet nowrap" }, one.seenAt ? "heard " + ago(one.seenAt, now) : "")))) : null)),
      ];
    },
  };
}

function loopTable(loops, failing, now) {
  const turning = loops.some((one) => one.turns?.length || one.lastTurn);
  return table(["Loop", ...(turning ? [["Last turn", "right"], ["Every", "right no-narrow"], ["Took", "right no-narrow"], ["Last turns", "no-narrow"], ["Failures", "right"]] : [["State", "right"]])], loops.map((one) => {
    const bad = one.failing || failing.has(one.name) || one.alive === false;
    const failures = (one.turns || []).filter((turn) => !turn.ok).length;
    return {
      key: one.process + one.name,
      cells: [
        h("div", null, mark(bad ? "suspect" : "good", bad ? "warn" : "offer", h("b", null, one.name)), h("div", { class: "quiet" }, WHAT[one.name] || "")),
        ...(turning
          ? [one.lastTurn ? length(since(one.lastTurn, now)) + " ago" : "–", length(one.every), length(one.lastSeconds), turns(one.turns || []), failures ? h("b", { class: "ink-warn" }, count(failures)) : "0"]
          : [bad ? "fails" : "turns"]),
      ],
    };
  }), "Loops");
}

function turns(list) {
  const high = Math.max(1e-6, ...list.map((one) => one.seconds));
  const bad = list.filter((one) => !one.ok).length;
  return h("span", { class: "turns", role: "img", "aria-label": `${plural(list.length, "turn")}, ${count(bad)} failed` }, list.map((one) => h("i", { class: one.ok ? "" : "bad", title: `${time(one.at)}, ${length(one.seconds)}${one.ok ? "" : ", failed"}`, style: { height: Math.max(12, (100 * one.seconds) / high).toFixed(0) + "%" } })));
}

function debts({ debts: list, moreDebts }, now) {
  const late = list.filter((one) => ms(one.dueAt) < now - 5000);
  return panel({ title: "Debts", note: `${moreDebts ? "more than " : ""}${count(list.length)} owed, ${count(late.length)} overdue` }, list.length ? table(["Owed", "By record", ["Due", "right"], ["Waits for", "no-narrow"]], list.slice(0, MOST).map((one) => ({
    key: one.subject + one.kind,
    cells: [mark("debt", "created", one.kind.replace(/-/g, " ")), idLink(one.subject, /^i-/.test(one.subject) ? "instance" : ""), ms(one.dueAt) < now ? h("span", { class: late.includes(one) ? "ink-warn" : "" }, length(since(one.dueAt, now)) + " overdue") : "in " + length((ms(one.dueAt) - now) / 1000), one.waitsFor || ""],
  })), "Debts") : h("p", { class: "inside quiet" }, "Nothing is owed."));
}

function limits(list, now) {
  if (!list.length) return null;
  return panel({ title: "GitHub limits" }, h("div", { class: "inside stacked" }, list.map((one) => {
    const low = one.remaining < one.limit / 10;
    return h("div", { key: one.resource }, h("p", null, bold(one.resource), h("span", { class: "quiet" }, `, resets in ${until(one.resetsAt, now)}: `), `${count(one.remaining)} of ${count(one.limit)} left`),
      h("div", { class: "meter", role: "img", "aria-label": `${one.remaining} of ${one.limit} left` }, h("div", { class: low ? "fill-warn" : "fill-offer", style: { width: (100 * one.remaining) / (one.limit || 1) + "%" } })));
  })));
}
