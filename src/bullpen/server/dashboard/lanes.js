// Lanes of a run: how its runners got ready, and which jobs each of them executed.

import { h } from "./dom.js";
import { length, ms } from "./format.js";
import { legend } from "./marks.js";
import { idLink } from "./parts.js";

const TICKS = [0, 0.25, 0.5, 0.75, 1];

function axis(whole, format = length) {
  return h("div", { class: "lane", key: "axis" }, h("span"), h("div", { class: "axis" }, TICKS.map((part) => h("span", { style: { left: 100 * part + "%" } }, format(part * whole)))), h("span"));
}

const share = (value, whole) => Math.min(100, Math.max(0, (100 * value) / whole)).toFixed(2) + "%";
const bar = (fill, from, to, whole, title) => h("span", { class: fill, title, style: { left: share(from, whole), width: share(to - from, whole) } });

/** A lane for each instance that a provision held: the seconds from the request until each stage. */
export function waterfall(timeline, wanted, now) {
  const ended = timeline.seconds;
  const reached = timeline.lanes.flatMap((one) => [one.picked, one.claimed, one.seen, one.launched, one.booted, one.registered]).filter((v) => v !== null);
  const until = ended ?? Math.max(0, (now - ms(timeline.askedAt)) / 1000);
  const whole = Math.max(until, 0.2, ...reached);
  const committed = timeline.outcome === "met" || timeline.outcome === "partial";
  const lanes = timeline.lanes.map((one) => lane(one, whole, until, committed));
  const missing = Math.max(0, wanted - timeline.lanes.filter((one) => one.kept || timeline.outcome === "open").length);
  for (let n = 0; n < Math.min(missing, 20); n++)
    lanes.push(h("div", { class: "lane", key: "missing" + n }, h("span", { class: "quiet" }, "missing"), h("div", { class: "track" }, h("span", { class: "fill-missing", style: { left: "0", width: "100%" } })), h("span")));
  return [
    h("div", { class: "lanes" }, axis(whole), lanes),
    h("footer", null, legend(["fill-grey", "Picked up and claimed"], ["fill-claimed", "Claim seen"], ["fill-created", "Launched and booted"], ["fill-running", "Registered"], ["fill-pale", "Ready, waits for the others"], ...(missing ? [["fill-missing", "Missing"]] : []))),
  ];
}

function lane(one, whole, until, committed) {
  const parts = [];
  let from = 0;
  const step = (fill, at, word) => {
    if (at === null || at === undefined || at < from) return;
    parts.push(bar(fill, from, at, whole, `${word}: ${length(at - from)}`));
    from = at;
  };
  step("fill-grey", one.claimed ?? one.launched ?? one.picked, "picked up and claimed");
  step("fill-claimed", one.seen, "claim seen");
  step("fill-created", one.booted, "launched and booted");
  step("fill-running", one.registered, "registered");
  const ready = one.registered;
  if (one.kept && ready !== null && until > ready) parts.push(bar("fill-pale", ready, until, whole, "waits for the others"));
  if (one.kept && committed) parts.push(h("span", { class: "edge", title: "committed", style: { left: share(until, whole) } }));
  if (!one.kept && one.reason) parts.push(h("span", { class: "said", title: one.reason, style: { left: share(from, whole), right: "0" } }, one.reason));
  return h("div", { class: "lane", key: one.instanceId + one.claimed },
    h("span", { class: "cut" }, one.kept || !one.reason ? idLink(one.instanceId, "instance") : h("span", { class: "struck mono" }, idLink(one.instanceId, "instance")), h("span", { class: "quiet no-narrow" }, " " + (one.kept || !one.reason ? (one.origin === "created" ? "created" : "reused") : "discarded"))),
    h("div", { class: "track" }, parts),
    h("span", { class: "right quiet" }, ready === null ? "–" : length(ready)));
}

/** Attempts of jobs, by the story of each: { job, from, to, instance, lost, result }. */
export function attempts(list, stories, now) {
  const found = [];
  for (const job of list) {
    const story = stories.get(job.id) || [];
    let open = null;
    for (const line of story) {
      if (line.state === "running" && !open) open = { job, from: ms(line.at), instance: line.instanceId || named(line) };
      else if (line.state === "running" && open && !open.instance) open.instance = named(line);
      else if (line.state !== "running" && open) {
        found.push({ ...open, to: ms(line.at), lost: line.state === "queued", result: line.state === "finished" ? job.result : "" });
        open = null;
      }
    }
    if (open) found.push({ ...open, to: job.finishedAt ? ms(job.finishedAt) : now, result: job.result });
    else if (!story.length && job.state !== "queued") found.push({ job, from: ms(job.queuedAt || job.finishedAt), to: job.finishedAt ? ms(job.finishedAt) : now, result: job.result });
    const last = found.at(-1);
    if (last?.job === job && !last.lost) last.instance = job.instanceId || last.instance;
  }
  return found;
}

const named = (line) => /\bi-[0-9a-f]{8,}\b/.exec(line.by + " " + line.why)?.[0] || "";

/** A lane for each runner, with the jobs that it executed; a lost one ends red, and goes on in another lane. */
export function jobLanes(all, askedAt, now) {
  const start = Math.min(askedAt ?? Infinity, ...all.map((one) => one.from));
  const whole = Math.max(1, (Math.max(...all.map((one) => one.to)) - start) / 1000);
  const lanes = new Map();
  for (const one of all) {
    const name = one.instance || "unknown";
    if (!lanes.has(name)) lanes.set(name, []);
    lanes.get(name).push(one);
  }
  return [
    h("div", { class: "lanes" }, axis(whole), [...lanes].map(([id, list]) => h("div", { class: "lane", key: id },
      h("span", { class: "cut" }, id === "unknown" ? h("span", { class: "quiet" }, "a lost runner") : idLink(id, "instance")),
      h("div", { class: "track" }, list.map((one) => {
        const from = (one.from - start) / 1000;
        const to = (one.to - start) / 1000;
        const kind = one.lost ? "fill-bad" : one.result === "succeeded" ? "fill-ok" : one.result ? "fill-bad" : "fill-now";
        const word = one.job.name || one.job.command?.join(" ") || one.job.id;
        const what = one.lost ? word + ", lost" : word;
        return h("span", { class: "job " + kind, title: `${what}, ${one.result || (one.lost ? "its runner was lost" : "runs")}, ${length(to - from)}`, style: { left: share(from, whole), width: share(to - from, whole) } }, what);
      })),
      h("span", { class: "right quiet" }, length(list.reduce((sum, one) => sum + one.to - one.from, 0) / 1000))))),
    h("footer", null, legend(["fill-ok", "Succeeded"], ["fill-bad", "Failed, or lost with its runner"], ["fill-now", "Running"])),
  ];
}
