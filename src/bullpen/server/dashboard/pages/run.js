// One run: where did the seconds go?

import { releaseDialog } from "../actions.js";
import { at } from "../api.js";
import { h } from "../dom.js";
import { capital, count, length, ms, plural, share, since, time } from "../format.js";
import { attempts, jobLanes, waterfall } from "../lanes.js";
import { instanceMark, jobMark, mark } from "../marks.js";
import { bold, bones, command, copyButton, facts, idLink, panel, problem, quoted, table, unknown } from "../parts.js";
import { may } from "../session.js";
import { shared } from "../shell.js";
import { groupOf, instances, jobs, operations, runJobs, runs } from "../store.js";
import { causePill, waitBody } from "../waits.js";

const MOST = 200; // rows of a table

export default function page(context) {
  const { id } = context;
  const shown = context.resource(at`/v1/runs/${id}`, 3);
  const why = context.resource(at`/v1/why/${id}`, 3);
  const told = context.resource(at`/v1/stories/${id}`, 3);

  return {
    draw() {
      const now = context.now();
      const mine = operation(id);
      const answer = shown.answer;
      if (!answer && !mine && !runs.has(id)) return shown.error ? [shown.error.missing ? unknown("run", id) : problem(shown.error, "about runs")] : bones();
      const held = merged(answer?.instances, runs.get(id), instances);
      for (const one of held) one.group ??= groupOf(one);
      const work = merged(answer?.jobs, runJobs.get(id), jobs);
      const stories = new Map((why.answer?.stories || told.answer?.stories || []).map((one) => [one.id, one.story]));
      const timeline = why.answer?.timeline;
      const waits = why.answer?.waits || (shared.waits || []).filter((one) => one.runId === id);
      const result = mine?.kind === "provision" ? mine.result : null;
      const tried = attempts(work, stories, now);
      const lost = tried.filter((one) => one.lost);
      return [
        h("div", { class: "lead", key: "lead" },
          h("div", null,
            h("div", { class: "head-line" }, h("span", { class: "name" }, "Run ", id), copyButton(id, "Copy the id"), stateMark(held, mine, work), h("span", { class: "quiet" }, held.find((one) => one.repository)?.repository || "")),
            h("p", { class: "answer" }, h("span", null, sentence(held, work, mine, timeline, waits, now, lost)))),
          h("div", { class: "actions" }, may("operate") && (held.length || mine?.state === "running") ? h("button", { type: "button", class: "button", on: { click: () => releaseDialog(id) } }, "Release…") : null)),
        waits.length ? panel({ title: "Why it waits", end: command("bullpen why " + quoted(id)) }, waits.slice(0, 20).map((one) => h("div", { class: "inside", key: one.subject }, h("p", null, causePill(one.cause), " ", h("span", { class: "id" }, one.subject)), waitBody(one)))) : null,
        timeline?.lanes.length ? panel({ title: "Getting ready", note: "seconds from the request" + (timeline.endedAt ? `; ${timeline.outcome === "failed" ? "given up" : "committed"} at ${length(timeline.seconds)}` : "; not committed yet") }, waterfall(timeline, result?.requested || mine?.progress?.total || 0, now))
          : mine?.state === "running" && mine.progress ? panel({ title: "Getting ready", note: mine.progress.text }, h("div", { class: "inside" }, h("div", { class: "meter", role: "img", "aria-label": `${mine.progress.done} of ${mine.progress.total} ready` }, h("div", { class: "fill-running", style: { width: share(mine.progress.done, mine.progress.total).replace("\u00a0", "") } })))) : null,
        tried.length ? panel({ title: "Jobs", note: "each lane is a runner" }, jobLanes(tried, timeline ? ms(timeline.askedAt) : null, now)) : null,
        h("div", { class: "halves", key: "halves" },
          h("div", null,
            panel({ title: "Its runners", note: count(held.length) }, held.length ? table(["State", "Instance", ["Machine", "no-narrow"], ["Job", ""]], held.slice(0, MOST).map((one) => ({ key: one.id, cells: [instanceMark(one), idLink(one.id, "instance"), h("span", { class: "mono" }, one.instanceType), one.job ? one.job.name : current(work, one.id)] })), "Its runners") : h("p", { class: "inside quiet" }, "It has none now.")),
            panel({ title: "Facts" }, h("div", { class: "inside" }, facts(factsOf(held, mine, result, timeline, now))))),
          h("div", null,
            work.length ? panel({ title: "Job list", note: plural(work.length, "job") }, table(["State", "Job", ["Losses", "right"], ["For", "right"]], work.slice(0, MOST).map((job) => ({ key: job.id, cells: [jobMark(job), h("span", null, idLink(job.id, "job"), " ", job.name), String(job.losses), job.state === "queued" ? length(since(job.queuedAt, now)) : took(job, tried)] })), "Job list")) : null,
            lost.length ? panel({ title: "Lost and rescued", note: plural(new Set(lost.map((one) => one.job.id)).size, "job") }, lost.map((one) => rescued(one, tried, now))) : null,
            discarded(timeline, result))),
      ];
    },
  };
}

function operation(id) {
  let found = null;
  for (const one of operations.values()) if (one.runId === id && (!found || found.startedAt <= one.startedAt)) found = one;
  return found;
}

/** What the server listed, replaced by what the stream knows of it since. */
function merged(listed, ids, live) {
  const found = new Map((listed || []).map((one) => [one.id, one]));
  for (const id of ids || []) found.set(id, { ...found.get(id), ...live.get(id) });
  return [...found.values()];
}

/** How long its last attempt has taken. */
const took = (job, tried) => {
  const last = tried.findLast((one) => one.job === job);
  return last ? length((last.to - last.from) / 1000) : "–";
};

const current = (work, instance) => {
  const job = work.find((one) => one.instanceId === instance && one.state === "running");
  return job ? idLink(job.id, "job") : "–";
};

function stateMark(held, mine, work) {
  if (mine?.state === "running") return mine.kind === "provision" ? mark("claimed", "claimed", "Provisioning", "", "pill") : mark("cleaning", "cleaning", "Releasing", "", "pill");
  if (held.some((one) => one.trouble === "lost")) return mark("lost", "lost", "Lost a runner", "lost", "pill lost");
  if (held.length) return mark("running", "running", "Running", "", "pill");
  if (mine?.state === "failed") return mark("failed", "lost", "Failed", "lost", "pill lost");
  return mark("good", "offer", work.some((one) => one.state !== "finished") ? "No runners" : "Over", "", "pill");
}

function sentence(held, work, mine, timeline, waits, now, lost) {
  const said = [];
  const result = mine?.kind === "provision" ? mine.result : null;
  if (mine?.state === "running" && mine.progress) said.push(bold(`${count(mine.progress.done)} of ${count(mine.progress.total)}`), ` are ready after ${length(since(mine.startedAt, now))}. `);
  else if (mine?.kind === "provision" && mine.state === "failed") said.push("It got no runners: ", mine.reason, " ");
  else if (timeline && timeline.endedAt && timeline.outcome !== "failed") {
    const kept = timeline.lanes.filter((one) => one.kept);
    const created = kept.filter((one) => one.origin === "created").length;
    said.push(ready(kept.length, asked(result), timeline.seconds, kept.length - created, created));
  } else if (result) said.push(ready(result.selected + result.created, asked(result), result.durationSeconds, result.selected, result.created));
  else if (held.length) said.push("It has ", bold(plural(held.length, "runner")), ". ");
  else said.push("It has no runners now. ");
  if (waits.length && !mine?.progress) said.push(capital(waits[0].because), " ");
  const silent = held.filter((one) => one.trouble === "lost" || one.trouble === "suspect").length;
  if (silent) said.push(bold(plural(silent, "runner")), silent === 1 ? " is silent. " : " are silent. ");
  if (lost.length) said.push(bold(plural(lost.length, "job")), " lost a runner and went to another one. ");
  const failed = work.filter((one) => one.result && one.result !== "succeeded").length;
  if (failed) said.push(bold(plural(failed, "job")), " did not succeed.");
  return said;
}

/** How many a provision had to find: those that served the run before are not among them. */
const asked = (result) => (result ? result.requested - (result.held?.length || 0) : 0);

function ready(got, wanted, seconds, reused, created) {
  if (!got && wanted <= 0) return "It had its runners already. ";
  const who = got < wanted ? [bold(count(got)), ` of ${count(wanted)} runners were`] : got === 1 ? "Its runner was" : ["All ", bold(count(got)), " were"];
  return [who, " ready in ", bold(length(seconds)), got === 1 ? (reused ? ", reused. " : ", created. ") : `: ${count(reused)} reused, ${count(created)} created. `];
}

function factsOf(held, mine, result, timeline, now) {
  const first = held[0];
  return [
    ["Wanted", result ? count(result.requested) : mine?.progress ? count(mine.progress.total) : null],
    ["Got", result ? `${count(result.selected + result.created)}: ${count(result.selected)} reused, ${count(result.created)} created` : count(held.length)],
    ["Class", [...new Set(held.map((one) => one.resourceClass))].join(", ")],
    ["Repository", first?.repository],
    ["Trust domain", first?.trustDomain],
    ["Provision", timeline?.provisionId || first?.provisionId ? idLink(timeline?.provisionId || first.provisionId, "provision") : null],
    ["Asked", timeline ? time(timeline.askedAt, now) : mine ? time(mine.startedAt, now) : null],
    ["Operation", mine ? `${mine.kind} ${mine.state}` : null],
    ["Collisions", result?.collisions ? `${count(result.collisions)} claims that other runs won` : null],
    ["Reason", mine?.reason],
    ["What to do", mine?.remedy],
  ];
}

function rescued(one, tried, now) {
  const next = tried.find((other) => other.job === one.job && other.from >= one.to);
  return h("div", { class: "list-row", key: one.job.id + one.to },
    h("span", { class: "quiet nowrap" }, time(one.to, now)),
    h("span", { class: "grow" }, bold(one.job.name || one.job.id), " lost its runner", one.instance ? [" ", idLink(one.instance, "instance")] : "", next ? [" and was on ", next.instance ? idLink(next.instance, "instance") : "another", ` ${length((next.from - one.to) / 1000)} later.`] : " and waits for another."));
}

function discarded(timeline, result) {
  const list = timeline ? timeline.lanes.filter((one) => !one.kept && one.reason).map((one) => ({ instanceId: one.instanceId, reason: one.reason, outcome: one.fate })) : result?.discarded || [];
  return list.length ? panel({ title: "Discarded", note: count(list.length) }, table(["Instance", "Reason", "What became of it"], list.slice(0, MOST).map((one) => [idLink(one.instanceId, "instance"), one.reason, one.outcome || "–"]), "Discarded")) : null;
}
