// Any record by its id: a job, a worker, a provision, a set, or the address of a job at GitHub. It says what
// `bullpen why` says.

import { at } from "../api.js";
import { h } from "../dom.js";
import { capital, length, time } from "../format.js";
import { waterfall } from "../lanes.js";
import { JobLog } from "../log.js";
import { jobMark, recordMark } from "../marks.js";
import { bold, bones, command, copyButton, facts, idLink, panel, problem, quoted, unknown } from "../parts.js";
import { jobs } from "../store.js";
import { causePill, waitBody } from "../waits.js";
import { storyTable } from "./instance.js";

export default function page(context) {
  const { id } = context;
  const why = context.resource(at`/v1/why/${id}`, 3);
  const told = context.resource(`/v1/stories/${id.split("/").map(encodeURIComponent).join("/")}`, 3);
  const job = /^[ij]?[0-9a-z-]+$/i.test(id) ? context.resource(at`/v1/jobs/${id}`, 3) : null;
  const log = new JobLog(context.redraw);

  return {
    early: true,
    draw() {
      const now = context.now();
      const answer = why.answer;
      const stories = answer?.stories || told.answer?.stories;
      const one = jobs.get(id) || job?.answer;
      if (!stories) return told.error && (why.error || why.answer) ? [told.error.missing ? unknown("record", id) : problem(told.error, "about records")] : bones();
      if (one) log.follow(one);
      const main = stories.find((story) => story.id === id) || stories[0];
      return [
        h("div", { class: "lead", key: "lead" }, h("div", null,
          h("div", { class: "head-line" }, h("span", { class: "name mono" }, id), copyButton(id, "Copy the id"), one ? jobMark(one) : main?.state ? recordMark(main.state, true) : null),
          h("p", { class: "answer" }, h("span", null, answer?.summary || (one ? capital(one.reason || `job ${one.name || one.id} is ${one.state}`) : `${capital(main?.state || "removed")}.`))))),
        (answer?.waits || []).map((wait) => panel({ title: "Why it waits", key: wait.subject + wait.cause }, h("div", { class: "inside" }, h("p", null, causePill(wait.cause), " ", h("span", { class: "id" }, wait.subject)), waitBody(wait)))),
        one ? panel({ title: "Facts" }, h("div", { class: "inside" }, facts([
          ["Name", one.name], ["Command", h("code", null, one.command.join(" "))], ["Run", idLink(one.runId, "run", { whole: true })], ["Runner", one.instanceId ? idLink(one.instanceId, "instance") : null], ["Worker", one.worker ? idLink(one.worker, "worker") : null],
          ["Queued", time(one.queuedAt, now)], ["Ended", one.finishedAt ? time(one.finishedAt, now) : null], ["Waited", one.waitedSeconds ? length(one.waitedSeconds) : null], ["Ran", one.ranSeconds ? length(one.ranSeconds) : null], ["Exit code", one.exitCode === null || one.exitCode === undefined ? null : String(one.exitCode)], ["Losses", String(one.losses)], ["Reason", one.reason],
        ]))) : null,
        one ? log.panel("the last attempt") : null,
        answer?.timeline?.lanes.length ? panel({ title: "Getting ready", note: "seconds from the request" }, waterfall(answer.timeline, 0, now)) : null,
        stories.map((story, n) => panel({ title: "Story", key: story.id, note: story.id === id ? `last ${story.story.length} steps` : story.id, end: n ? null : command("bullpen why " + quoted(id)) },
          story.id !== id ? h("p", { class: "inside" }, idLink(story.id, /^i-/.test(story.id) ? "instance" : ""), story.state ? [" ", bold(story.state)] : "") : null,
          story.story.length ? storyTable(story.story, now) : h("p", { class: "inside quiet" }, "No step is recorded."))),
      ];
    },
  };
}
