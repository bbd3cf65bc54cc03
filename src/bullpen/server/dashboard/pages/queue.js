// Queue: why does my job wait?

import { ask, at } from "../api.js";
import { h, icon } from "../dom.js";
import { count, length, plural, since, time } from "../format.js";
import { bold, bones, command, empty, lead, panel, problem, quoted, table } from "../parts.js";
import { address, pageOf } from "../router.js";
import { lineChart } from "../charts.js";
import { Series } from "../series.js";
import { shared } from "../shell.js";
import { causePill, waitBody } from "../waits.js";

export default function page(context) {
  const asked = context.resource("/v1/queue", 3);
  const series = new Series(context.resource("/v1/series?minutes=30", 15));
  const opened = new Map(); // subject → the wait with its candidates, or null while they are asked for
  if (context.query.get("open")) opened.set(context.query.get("open"), null);

  const toggle = async (event, subject) => {
    if (!event.currentTarget.open) return opened.delete(subject);
    if (opened.get(subject)) return;
    opened.set(subject, null);
    try {
      const answer = await ask(at`/v1/why/${subject}`);
      opened.set(subject, answer.waits.find((one) => one.subject === subject) || answer.waits[0] || null);
      context.redraw();
    } catch {
      // the wait stands there without its candidates
    }
  };

  return {
    draw() {
      const now = context.now();
      if (!asked.answer && asked.error) return asked.error.unavailable ? older(now) : [problem(asked.error, "what waits")];
      if (!asked.answer) return bones();
      const { waits, more, unmatched, latencies, dataSince } = asked.answer;
      return [
        lead("Why does my job wait?", waits.length ? (waits.every((one) => ["booting", "cleaning", "queued-behind"].includes(one.cause)) ? "wait" : "warn") : "good", sentence(waits, more, unmatched, now)),
        h("div", { class: "columns", key: "columns" },
          h("div", null,
            waits.length ? panel({ title: "Waiting now", note: "longest first" + (more ? `; ${count(more)} more` : "") }, waits.map((one) => row(one, opened, toggle, now)))
              : h("section", { class: "panel", key: "none" }, empty("Nothing waits", "A run or a job that waits appears here with the one cause that keeps it, what happens next, and who was refused.", "bullpen why 4711"))),
          h("div", null,
            latencies.length ? h("section", { class: "panel", key: "tiles" }, h("div", { class: "tiles" }, ["p50", "p95", "p99"].map((name) => tile(name, worst(latencies, name))), tile("Oldest", waits.length ? since(waits[0].since, now) : null))) : null,
            series.ready && series.times.length ? lineChart({ title: "Wait for a runner", note: "last 30 min", log: true, times: series.times, marks: series.marks, series: [{ name: "p95", tone: "created", values: series.waits("waitP95"), format: length }, { name: "p50", tone: "running", values: series.waits("waitP50"), format: length }] }) : null,
            latencyTable("By class", latencies, waits, "resourceClass", dataSince, now),
            latencyTable("By repository", latencies, waits, "repository", dataSince, now))),
      ];
    },
  };
}

function sentence(waits, more, unmatched, now) {
  if (!waits.length) return "Nothing waits.";
  const first = waits[0];
  return [bold(plural(waits.length + more, "wait")), ". The longest, ", h("span", { class: "id" }, first.subject), ", has waited ", bold(length(since(first.since, now))), ": ", first.because, unmatched.length ? [" ", bold(plural(unmatched.length, "wait")), unmatched.length === 1 ? " matches nothing of the pool." : " match nothing of the pool."] : ""];
}

function row(wait, opened, toggle, now) {
  return h("details", { key: wait.subject + wait.kind, open: opened.has(wait.subject), on: { toggle: (event) => toggle(event, wait.subject) } },
    h("summary", null, icon("right"),
      h("span", { class: "grow cut" }, bold(wait.subject), " ", h("span", { class: "second" }, wait.repository), " ", h("span", { class: "quiet" }, wait.kind !== "run" && wait.runId && wait.runId !== wait.subject ? `${wait.kind} of run ${wait.runId}` : wait.resourceClass)),
      causePill(wait.cause),
      h("b", { class: "right nowrap age" }, length(since(wait.since, now)))),
    opened.has(wait.subject) ? h("div", { class: "inside opened" }, waitBody(wait, opened.get(wait.subject) || wait),
      h("p", { class: "head-line" }, command("bullpen why " + quoted(wait.subject)), h("a", { class: "link", href: address(pageOf(wait.runId || wait.subject, wait.runId ? "run" : wait.kind), wait.runId || wait.subject) }, wait.kind === "set" ? "Open the set" : "Open the run"))) : null);
}

const tile = (name, seconds) => h("div", { class: "tile" }, h("div", { class: "label" }, name), h("b", null, length(seconds)));
const worst = (latencies, name) => latencies.reduce((most, one) => (one[name] === null ? most : Math.max(most ?? 0, one[name])), null);

function latencyTable(title, latencies, waits, by, dataSince, now) {
  const names = [...new Set([...latencies.map((one) => one[by]), ...waits.map((one) => one[by])])].filter(Boolean).sort();
  if (!names.length) return by === "resourceClass" ? panel({ title }, h("p", { class: "inside quiet" }, dataSince ? `No provision ended since ${time(dataSince, now)}.` : "No data yet: the history begins with the first provision.")) : null;
  return panel({ title, note: "last 24 h", key: title, footer: dataSince ? "No data before " + time(dataSince, now) + "." : null },
    table([by === "repository" ? "Repository" : "Class", ["p50", "right"], ["p95", "right"], ["Oldest", "right"], ["Waiting", "right"]], names.map((name) => {
      const mine = latencies.filter((one) => one[by] === name);
      const waiting = waits.filter((one) => one[by] === name);
      return [name, length(worst(mine, "p50")), length(worst(mine, "p95")), waiting.length ? length(Math.max(...waiting.map((one) => since(one.since, now) || 0))) : "–", waiting.length ? count(waiting.length) : "–"];
    }), title));
}

/** A server that explains no waits still names the provisions that wait for a cap. */
function older(now) {
  const waits = shared.status?.waiting || [];
  return [
    lead("Why does my job wait?", waits.length ? "warn" : "good", waits.length ? [bold(plural(waits.length, "provision")), " wait for room under a cap."] : "No provision waits for a cap. This server does not explain other waits."),
    waits.length ? panel({ title: "Waiting now" }, table(["Run", "Class", ["Runners", "right"], "Waits for", ["For", "right"]], waits.map((one) => [one.runId, one.resourceClass, count(one.count), one.waitsFor, length(since(one.since, now))]), "Waiting now")) : null,
  ];
}
