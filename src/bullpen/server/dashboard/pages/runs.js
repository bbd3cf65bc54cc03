// Runs: did my run get its runners?

import { glyph, h, setClass, setText, slot } from "../dom.js";
import { ago, count, length, plural, since } from "../format.js";
import { List } from "../list.js";
import { bold, bones, empty, filterField, lead, problem } from "../parts.js";
import { address, go, keep } from "../router.js";
import { shared } from "../shell.js";
import { instances, jobs, operations, runJobs, runs as held } from "../store.js";
import { CAUSES } from "../causes.js";

const WORDS = { waiting: ["wait", "warn", "Waiting"], provisioning: ["claimed", "claimed", "Provisioning"], running: ["running", "running", "Running"], releasing: ["cleaning", "cleaning", "Releasing"], failed: ["failed", "lost", "Failed"], cancelled: ["cancelled", "ended", "Cancelled"], released: ["good", "offer", "Released"] };
const RANK = { waiting: 0, provisioning: 1, failed: 2, running: 3, releasing: 4, cancelled: 5, released: 6 };
const COLUMNS = [["State"], ["Run"], ["Repository", "middle"], ["Runners", "right"], ["Ready in", "right"], ["Reused and created", "middle"], ["Note"], ["Asked", "right wide"]];

export default function page(context) {
  let text = context.query.get("q") || "";
  const asked = context.resource("/v1/runs?limit=1000", 3);
  let known = new Map();
  const list = new List({
    label: "Runs", kind: "of-runs", columns: COLUMNS, open: (id) => go("runs", id),
    row: () => row(context, (id) => known.get(id)),
    order: () => [...known.values()].filter((one) => !text || (one.id + " " + one.repository).toLowerCase().includes(text)).sort((a, b) => RANK[a.state] - RANK[b.state] || Date.parse(b.since || 0) - Date.parse(a.since || 0) || (a.id < b.id ? -1 : 1)).map((one) => one.id),
  });
  return {
    list,
    close: () => list.close(),
    draw() {
      if (!asked.answer && asked.error) return [problem(asked.error, "about runs")];
      if (!asked.answer) return bones();
      known = collect(asked.answer.runs);
      list.refresh(list.ids.length !== known.size && !text);
      for (const one of list.rows) if (one.id) one.fill(one.id);
      const all = [...known.values()];
      const number = (state) => all.filter((one) => one.state === state).length;
      const waiting = number("waiting") + number("provisioning");
      const failed = number("failed");
      const lost = all.reduce((sum, one) => sum + one.lost, 0);
      const sentence = all.length
        ? [bold(plural(number("running"), "run")), number("running") === 1 ? " has its runners. " : " have their runners. ", waiting ? [bold(count(waiting)), waiting === 1 ? " waits for its own" : " wait for theirs"] : "None waits", failed ? [", ", bold(count(failed)), " failed"] : "", ". ", lost ? [bold(plural(lost, "job")), " lost a runner. "] : "", asked.answer.next ? `Only the first ${count(asked.answer.runs.length)} runs by id are shown; find others by their id.` : ""]
        : "There are no runs.";
      return [
        lead("Did my run get its runners?", failed || number("waiting") || lost ? "warn" : all.length ? "good" : "wait", sentence,
          filterField(text, (value) => { text = value.trim().toLowerCase(); keep({ q: text }); list.refresh(true); context.redraw(); }, "Filter by run or repository")),
        !all.length ? h("section", { class: "panel", key: "none" }, empty("No runs", "A run appears here when it asks for runners, and leaves when all of them are back in the pool.", "bullpen run --count 3 -- echo hello"))
          : !list.ids.length ? h("section", { class: "panel", key: "none" }, empty("Nothing fits", "No run fits the filter.", h("button", { type: "button", class: "button", on: { click: () => { text = ""; document.getElementById("filter").value = ""; keep({ q: "" }); list.refresh(true); context.redraw(); } } }, "Clear the filter"))) : slot(list.node),
      ];
    },
  };
}

/** The runs that the pool serves, and those of the last operations that have ended. */
function collect(list) {
  const found = new Map();
  const last = new Map();
  for (const one of operations.values()) if (!last.has(one.runId) || last.get(one.runId).startedAt <= one.startedAt) last.set(one.runId, one);
  for (const run of list) found.set(run.id, { ...run, operation: last.get(run.id), ...counted(run.id) });
  for (const [id, one] of last) {
    if (found.has(id) || one.state === "running") continue;
    const state = one.kind === "release" && one.state === "succeeded" ? "released" : one.state === "cancelled" ? "cancelled" : one.state === "succeeded" ? null : "failed";
    if (state) found.set(id, { id, state, repository: "", resourceClasses: [], wanted: one.result?.requested || one.progress?.total || 0, held: 0, since: one.startedAt, waitsFor: "", operation: one, ...counted(id) });
  }
  return found;
}

function counted(id) {
  let fresh = 0;
  let lost = 0;
  let silent = 0;
  for (const one of held.get(id) || []) {
    const record = instances.get(one);
    if (record?.group === "created") fresh++;
    if (record?.trouble === "lost" || record?.trouble === "suspect") silent++;
  }
  for (const one of runJobs.get(id) || []) if (jobs.get(one)?.losses) lost++;
  return { fresh, lost, silent };
}

function noteOf(one) {
  const wait = (shared.waits || []).find((other) => other.runId === one.id || other.subject === one.id);
  if (one.silent) return { glyph: "suspect", tone: "warn", word: plural(one.silent, "silent runner") };
  if (one.lost) return { glyph: "lost", tone: "lost", word: plural(one.lost, "job") + " lost a runner" };
  if (wait) return CAUSES[wait.cause] ? { ...CAUSES[wait.cause], title: wait.because } : { glyph: "wait", tone: "warn", word: wait.cause };
  if (one.waitsFor) return { glyph: "brake", tone: "warn", word: one.waitsFor + " is full" };
  if (one.state === "failed") return { glyph: "failed", tone: "lost", word: one.operation?.reason || "failed" };
  return null;
}

function row(context, get) {
  const state = h("span", { role: "gridcell", class: "mark n1" });
  const id = h("a", { class: "id", tabindex: "-1" });
  const repository = h("span", { role: "gridcell", class: "middle n0" });
  const runners = h("span", { role: "gridcell", class: "right n4" });
  const ready = h("span", { role: "gridcell", class: "right n2" });
  const reused = h("i", { class: "fill-running" });
  const fresh = h("i", { class: "fill-created" });
  const got = h("span");
  const note = h("span", { role: "gridcell", class: "n0" });
  const asked = h("span", { role: "gridcell", class: "right quiet wide n0" });
  const split = h("span", { class: "split" }, reused, fresh);
  const node = h("div", null, state, h("span", { role: "gridcell", class: "n3" }, id), repository, runners, ready, h("span", { role: "gridcell", class: "middle n0" }, h("span", { class: "got" }, split, got)), note, asked);
  let drawn = "";
  return {
    node,
    fill(key) {
      const one = get(key);
      if (!one) return;
      const now = context.now();
      const [drawing, tone, word] = WORDS[one.state] || ["queued", "ended", one.state];
      if (drawn !== word) {
        drawn = word;
        state.replaceChildren(glyph(drawing, tone), h("span", null, word));
        setClass(state, "mark n1 " + (tone === "warn" || tone === "lost" ? tone : ""));
      }
      id.href = address("runs", one.id);
      id.title = one.id;
      setText(id, one.id);
      setText(repository, one.repository || "–");
      setText(runners, `${count(one.held)} of ${count(one.wanted)} ${one.resourceClasses.join(", ")}`);
      const result = one.operation?.kind === "provision" ? one.operation.result : null;
      const waits = one.state === "waiting" || one.state === "provisioning";
      setText(ready, result ? length(result.durationSeconds) : waits ? length(since(one.since, now)) : "–");
      setClass(ready, "right n2 " + (waits ? "ink-warn" : ""));
      const created = result ? result.created : one.fresh;
      const selected = result ? result.selected : Math.max(0, one.held - one.fresh);
      const whole = Math.max(one.wanted, created + selected, 1);
      reused.style.width = (100 * selected) / whole + "%";
      fresh.style.width = (100 * created) / whole + "%";
      const parts = [selected ? count(selected) + (result ? " reused" : " ready") : "", created ? count(created) + (result ? " new" : " booting") : ""];
      setText(got, parts.filter(Boolean).join(", ") || "none");
      const said = noteOf(one);
      const words = said ? said.glyph + said.word : "";
      if (note.dataset.words !== words) {
        note.dataset.words = words;
        note.replaceChildren(said ? h("span", { class: "mark " + (said.tone === "warn" || said.tone === "lost" ? said.tone : ""), title: said.title || said.word }, glyph(said.glyph, said.tone), h("span", { class: "cut" }, said.word)) : "–");
      }
      setText(asked, one.since ? ago(one.since, now) : "–");
    },
  };
}
