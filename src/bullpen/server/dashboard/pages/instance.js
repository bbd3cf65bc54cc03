// One instance: what happened to it?

import { drainDialog } from "../actions.js";
import { at } from "../api.js";
import { h } from "../dom.js";
import { ago, capital, length, memory, money, ms, short, since, time, until } from "../format.js";
import { JobLog } from "../log.js";
import { instanceMark, leaseBar, leaseOf, legend, recordMark, WORD, debtMark } from "../marks.js";
import { bones, bold, command, copyButton, facts, idLink, panel, problem, quoted, table, unknown } from "../parts.js";
import { may } from "../session.js";
import { departed, groupOf, instances, jobs, silent, takeLease } from "../store.js";

export default function page(context) {
  const { id } = context;
  const asked = context.resource(at`/v1/instances/${id}`, 3);
  const why = context.resource(at`/v1/why/${id}`, 5);
  const worker = context.resource(at`/v1/workers?limit=1&after=${id}`, 3);
  const lease = leaseBar();
  const log = new JobLog(context.redraw);

  return {
    draw() {
      const now = context.now();
      const live = instances.get(id) || departed.get(id);
      const record = live ? { ...asked.answer, ...live } : asked.answer;
      if (!record) return asked.error ? [asked.error.missing ? unknown("instance", id) : problem(asked.error, "about instances")] : bones();
      const story = asked.answer?.story || [];
      record.group ??= groupOf(record);
      record.heartbeatAt = asked.answer?.heartbeatAt || record.heartbeatAt;
      const mine = worker.answer?.workers.find((one) => one.key.startsWith(id));
      if (mine) takeLease({ ...mine, instanceId: id });
      lease.set(leaseOf(record, now));
      const job = jobOf(id);
      if (job) log.follow(job);
      return [
        h("div", { class: "lead", key: "lead" },
          h("div", null,
            h("div", { class: "head-line" }, h("span", { class: "name mono" }, id), copyButton(id, "Copy the id"), instanceMark(record, "pill " + (record.trouble && record.trouble !== "leaving" ? record.trouble === "lost" ? "lost" : "warn" : record.trouble ? "warn" : ""))),
            h("p", { class: "answer" }, h("span", null, sentence(record, story, now)))),
          may("operate") && record.group !== "ended" && record.imageGeneration ? h("div", { class: "actions" }, h("button", { type: "button", class: "button", on: { click: () => drainDialog(id) } }, "Drain…")) : null),
        story.length ? panel({ title: "Lifeline", note: span(story, now) }, lifeline(story, now), h("footer", null, legend(["fill-offer", "On offer"], ["fill-cleaning", "Cleaning"], ["fill-running", "Running"], ["fill-claimed", "Claimed"], ["fill-created", "Booting"], ["fill-ended", "Ending"]))) : null,
        h("div", { class: "columns", key: "columns" },
          h("div", null,
            panel({ title: "Story", note: story.length ? `last ${story.length} steps` : "", end: command("bullpen why " + quoted(id)) }, story.length ? storyTable(story, now) : h("div", { class: "inside quiet" }, asked.answer ? "No step is recorded." : "Loading")),
            ...(why.answer?.waits || []).map((one) => panel({ title: "Why it waits", key: one.subject + one.cause }, h("div", { class: "inside" }, h("p", null, one.because), h("p", { class: "quiet" }, one.next)))),
            job ? log.panel(["of job ", idLink(job.id, "job"), " " + job.name]) : null,
            panel({ title: "Logs of its agent and runner", key: "evidence", end: may("operate") ? h("a", { class: "button", href: at`/v1/evidence/${id}`, download: `evidence-${id}.zip` }, "Download") : null }, h("div", { class: "inside" }, h("p", { class: "second" }, "In one file with its record and its story. " + (may("operate") ? "" : "It needs a token of the scope operate.")), command("bullpen evidence " + quoted(id))))),
          h("div", null,
            panel({ title: "Facts" }, h("div", { class: "inside" }, facts(factsOf(record, mine, lease, now)))),
            served(id, story, now))),
      ];
    },
  };
}

function sentence(record, story, now) {
  const last = story.at(-1);
  const from = last ? [" since ", bold(time(last.at, now))] : "";
  const worker = silent.get(record.id);
  if (record.trouble === "lost") return ["Its last beat was at ", bold(time(worker?.heartbeatAt || record.heartbeatAt, now)), "; its worker was given up. ", worker?.mayReturn ? "It may come back, in a new epoch." : "Its jobs go to other runners, and it is ended."];
  if (record.trouble === "suspect") return ["It has been silent since ", bold(time(worker?.heartbeatAt, now)), ". If it stays silent, its worker is given up and its jobs go to other runners."];
  if (record.trouble === "leaving") return ["Its machine is taken away at ", bold(time(record.leavingAt, now)), "."];
  const left = record.threshold ? [" Unless it changes, it is ended at ", bold(time(record.threshold, now)), "."] : "";
  switch (record.group) {
    case "running": return ["It serves run ", idLink(record.runId, "run"), from, ".", left];
    case "claimed": return ["Run ", idLink(record.runId, "run"), " has claimed it", from, "."];
    case "offer": return ["It is clean and on offer", from, ".", left];
    case "cleaning": return ["It cleans itself", from, ", and is then on offer again."];
    case "created": return ["It boots", from, record.runId ? [", for run ", idLink(record.runId, "run")] : "", "."];
    default: return record.owes ? ["It is being ended", from, "."] : ["It has ended", from, last?.why ? ": " + last.why : "", "."];
  }
}

const groupAt = (line, attested) => groupOf({ state: line.state, attested });

/** From step to step: what the instance was, from when to when. */
export function spans(story, now) {
  const found = [];
  let attested = false;
  for (const [n, line] of story.entries()) {
    if (line.state === "idle") attested = /^(offer|adopt|keep)/.test(line.step) || (attested && line.step === "keep");
    else attested = false;
    const from = ms(line.at);
    const to = story[n + 1] ? ms(story[n + 1].at) : line.step === "done" ? from : now;
    const group = groupAt(line, attested);
    const last = found.at(-1);
    if (last && last.group === group) last.to = to;
    else found.push({ group, from, to, line });
  }
  return found;
}

function span(story, now) {
  return "last " + length((now - ms(story[0].at)) / 1000);
}

function lifeline(story, now) {
  const start = ms(story[0].at);
  const whole = Math.max(1000, now - start);
  const part = (value) => ((100 * value) / whole).toFixed(2) + "%";
  const ticks = [0, 0.25, 0.5, 0.75].map((share) => h("span", { style: { left: 100 * share + "%" } }, time(start + share * whole, now).slice(-8)));
  const drawn = spans(story, now);
  const said = drawn.map((one) => `${WORD[one.group]} ${length((one.to - one.from) / 1000)}`).join(", ");
  return h("div", { class: "lanes" },
    h("div", { class: "lane" }, h("span"), h("div", { class: "axis" }, ticks), h("span")),
    h("div", { class: "lane" }, h("span", { class: "quiet" }, "State"),
      h("div", { class: "track", role: "img", "aria-label": said }, drawn.map((one) => h("span", { class: "fill-" + one.group, title: `${WORD[one.group]}, ${length((one.to - one.from) / 1000)}`, style: { left: part(one.from - start), width: part(one.to - one.from) } }))),
      h("span", { class: "quiet right" }, "now")));
}

export function storyTable(story, now) {
  return table([["When", "nowrap"], "Step", ["State", "nowrap"], ["By", "no-narrow"], "Why"], [...story].reverse().map((line) => ({
    key: line.version, kind: "top-aligned",
    cells: [h("time", { datetime: line.at, title: line.at }, time(line.at, now)), bold(line.step.replace(/_/g, " ")), recordMark(line.state, /^(offer|adopt|keep)/.test(line.step)), h("span", { class: "mono second" }, line.by), line.why],
  })), "Story");
}

function factsOf(one, worker, lease, now) {
  return [
    ["Class", one.resourceClass + ", " + one.cpu + " cpu · " + memory(one.mem)],
    ["Machine", h("span", null, h("span", { class: "mono" }, one.instanceType), " " + one.usageClass)],
    ["Price", one.pricePerHour === undefined ? null : money(one.pricePerHour, 4) + "/h"],
    ["Run", one.runId ? idLink(one.runId, "run") : null],
    ["Repository", one.repository],
    ["CI job", one.job ? `${one.job.repository} · ${one.job.name}` : null],
    ["Trust domain", one.trustDomain || "never used"],
    ["Image generation", one.imageGeneration ? String(one.imageGeneration) : "none: it is drained, and takes no new run"],
    ["Lease", one.group === "ended" ? null : lease.node],
    ["Last beat", one.heartbeatAt ? ago(one.heartbeatAt, now) : null],
    ["Last signal", one.signal],
    ["Worker", worker ? idLink(worker.key, "worker") : null],
    ["Failure domain", worker?.domain],
    ["Provision", one.provisionId ? idLink(one.provisionId, "provision") : null],
    ["Round", h("span", { class: "mono cut" }, one.round)],
    ["Version", String(one.version)],
    ["Until", one.threshold ? `${time(one.threshold, now)} (${until(one.threshold, now)})` : null],
    ["On offer since", one.offeredAt ? time(one.offeredAt, now) : null],
    ["Owes", one.owes ? debtMark(one.owes, now) : "nothing"],
    ["Record removed", one.purgeAt ? time(one.purgeAt, now) : null],
  ];
}

/** The job that it executes, or else the one that ended last there. */
function jobOf(id) {
  let found = null;
  for (const one of jobs.values()) if (one.instanceId === id && one.fence && (!found || one.state === "running" || (found.state !== "running" && one.finishedAt > found.finishedAt))) found = one;
  return found;
}

function served(id, story, now) {
  const known = story.filter((line) => line.step === "commit");
  const here = [...jobs.values()].filter((job) => job.instanceId === id);
  if (!known.length && !here.length) return null;
  const rows = known.reverse().map((line) => {
    const n = story.indexOf(line);
    const end = story.slice(n + 1).find((later) => later.state !== "running");
    return [line.runId ? idLink(line.runId, "run") : h("span", { class: "mono cut" }, short(line.by)), time(line.at, now), length(end ? (ms(end.at) - ms(line.at)) / 1000 : since(line.at, now))];
  });
  return [
    rows.length ? panel({ title: "Runs it served", note: String(rows.length) }, table(["Run", ["From", "nowrap"], ["For", "right"]], rows, "Runs it served")) : null,
    here.length ? panel({ title: "Its jobs", note: String(here.length) }, table(["Job", "State"], here.slice(0, 50).map((job) => [idLink(job.id, "job"), capital(job.result || job.state)]), "Its jobs")) : null,
  ];
}
