// What an operator does from the page: each shows first what would happen, and is done only when that is confirmed.

import { ask, at } from "./api.js";
import { close, redraw, show } from "./dialogs.js";
import { h } from "./dom.js";
import { count, money, plural } from "./format.js";
import { bold, command, quoted } from "./parts.js";
import { go } from "./router.js";
import { shared } from "./shell.js";
import { classes, runs, runJobs, jobs } from "./store.js";
import { toast } from "./toasts.js";
import { RULES } from "./causes.js";

const PAUSE = 350; // milliseconds without a key press after which the plan is asked for
const drawn = () => [...crypto.getRandomValues(new Uint8Array(16))].map((one) => one.toString(16).padStart(2, "0")).join("");

function field(label, id, attributes, changed) {
  return h("div", { class: "form-line" }, h("label", { for: id, class: "quiet" }, label), h("input", { class: "field", id, autocomplete: "off", spellcheck: "false", ...attributes, on: { input: changed } }));
}

function buttons(word, can, run) {
  return h("footer", null, h("button", { type: "button", class: "button", on: { click: close } }, "Cancel"), h("button", { type: "button", class: "button first", disabled: !can, on: { click: run } }, word));
}

const names = () => [...new Set([...(shared.status?.pools || []).map((one) => one.resourceClass), ...[...classes.keys()].sort()])];

/** Runners for a run: the plan stands there before the button can be pressed. */
export function provisionDialog() {
  const all = names();
  const asked = { run: "manual-" + drawn().slice(0, 6), of: all[0] || "small", runners: "1" };
  let key = ""; // of one request: a second try of it changes nothing, and another one has another key
  let plan = null;
  let error = null;
  let timer = 0;
  let number = 0;
  let busy = false;
  const value = () => ({ count: Number(asked.runners), resourceClass: asked.of });
  const replan = () => {
    plan = error = null;
    key = drawn();
    const mine = ++number; // an answer to what was asked before does not count
    clearTimeout(timer);
    timer = setTimeout(async () => {
      try {
        const found = await ask("/v1/plan", { method: "POST", body: { ...value(), runId: asked.run } });
        if (mine === number) plan = found;
      } catch (problem) {
        if (mine === number) error = problem;
      }
      redraw();
    }, PAUSE);
    redraw();
  };
  const changed = (name) => (event) => {
    asked[name] = event.target.value.trim();
    replan();
  };
  const send = async () => {
    busy = true;
    redraw();
    try {
      await ask(at`/v1/runs/${asked.run}/provision`, { method: "POST", body: value(), key });
      close();
      toast("good", `${plural(value().count, "runner")} asked for run ${asked.run}.`);
      go("runs", asked.run);
    } catch (problem) {
      error = problem;
      busy = false;
      redraw();
    }
  };
  show("Provision runners", () => [
    h("div", { class: "inside" },
      field("Run", "provision-run", { value: asked.run, autofocus: true }, changed("run")),
      h("div", { class: "form-line" }, h("label", { for: "provision-class", class: "quiet" }, "Class"),
        h("select", { class: "field", id: "provision-class", on: { change: changed("of") } }, all.map((name) => h("option", { value: name, selected: name === asked.of }, name)))),
      field("Runners", "provision-count", { type: "number", min: "1", value: asked.runners, inputmode: "numeric" }, changed("runners")),
      h("div", { class: "preview", role: "status" }, h("h3", null, "What would happen"), planned(plan, error, value().count)),
      command(`bullpen provision --run-id ${quoted(asked.run || "RUN")} --count ${asked.runners || 1} --class ${quoted(asked.of)}`)),
    buttons("Provision", !busy && asked.run && value().count > 0 && (plan || error?.unavailable), send),
  ]);
  replan();
}

function planned(plan, error, wanted) {
  if (error?.unavailable) return h("p", null, `This server cannot show a plan. ${plural(wanted, "runner")} would be claimed from the pool or launched.`);
  if (error) return h("p", { class: "error" }, error.message, error.remedy ? " " + error.remedy : "");
  if (!plan) return h("p", { class: "quiet" }, "Asking the server.");
  const launch = plan.wouldLaunch?.count || 0;
  return [
    h("p", null, bold(count(plan.wouldClaim.length)), " claimed from the pool, ", bold(count(launch)), " launched", plan.serving?.length ? [", ", bold(count(plan.serving.length)), " serve the run already"] : "", "."),
    plan.wouldEnd?.length ? h("p", null, plural(plan.wouldEnd.length, "idle instance") + " would be ended to make room.") : null,
    plan.blockedBy ? h("p", { class: "ink-warn" }, plan.blockedBy.because + " " + plan.blockedBy.next) : null,
    h("p", { class: "quiet" },
      plan.pricePerHour === null || plan.pricePerHour === undefined ? "No price is known" + (plan.missingPrices?.length ? ` for ${plan.missingPrices.join(", ")}` : "") + ". " : money(plan.pricePerHour) + " an hour. ",
      (plan.caps || []).map((one) => `${one.setting}: ${count(one.after)} of ${count(one.limit)} afterwards. `),
      plan.idleTarget?.target ? `On offer afterwards: ${count(plan.idleTarget.after)} of ${count(plan.idleTarget.target)}. ` : ""),
    plan.refusals?.length ? h("ul", { class: "quiet" }, plan.refusals.filter((one) => one.rule !== "fits").map((one) => h("li", null, `${count(one.count)} not claimed: ${RULES[one.rule] || one.rule}`))) : null,
  ];
}

export function releaseDialog(run) {
  const held = runs.get(run)?.size || 0;
  const busy = [...(runJobs.get(run) || [])].filter((id) => jobs.get(id)?.state === "running").length;
  confirm("Release the runners of " + run, "Release",
    async () => [h("p", null, bold(plural(held, "runner")), " of run ", bold(run), " would go back to the pool: each deregisters, cleans itself, and is then on offer or ended."),
      busy ? h("p", { class: "ink-warn" }, plural(busy, "job") + " of the run still " + (busy === 1 ? "executes" : "execute") + ".") : null],
    "bullpen release --run-id " + quoted(run),
    async () => {
      await ask(at`/v1/runs/${run}/release`, { method: "POST", key: drawn() });
      toast("good", `The runners of run ${run} are given back.`);
    });
}

const listed = (answer) => answer.actions.length
  ? h("ul", null, answer.actions.map((one) => h("li", null, bold(one.what), " ", one.subject, one.reason ? h("span", { class: "quiet" }, ": " + one.reason) : null)))
  : h("p", null, "Nothing would change.");

export function drainDialog(instance) {
  const body = (dryRun) => ({ instances: [instance], dryRun });
  confirm("Drain " + instance, "Drain", async () => listed(await ask("/v1/drain", { method: "POST", body: body(true) })), "bullpen drain " + quoted(instance),
    async () => {
      const answer = await ask("/v1/drain", { method: "POST", body: body(false) });
      const [deed] = answer.actions;
      toast("good", deed?.what === "skip" ? `${instance}: ${deed.reason}.` : `${instance} is drained.`);
    });
}

export function resumeDialog(of) {
  const body = (dryRun) => ({ resourceClass: of, dryRun });
  confirm("Resume " + (of ? "class " + of : "the pool"), "Resume", async () => listed(await ask("/v1/resume", { method: "POST", body: body(true) })),
    "bullpen resume" + (of ? " --class " + quoted(of) : ""),
    async () => {
      await ask("/v1/resume", { method: "POST", body: body(false) });
      toast("good", (of || "The pool") + " is resumed.");
    });
}

/** A pause needs a note, which status, why and refused provisions show. */
export function pauseDialog() {
  const asked = { of: "", note: "" };
  let preview = null;
  let error = null;
  let busy = false;
  let timer = 0;
  let number = 0;
  const body = (dryRun) => ({ resourceClass: asked.of, note: asked.note, dryRun });
  const changed = (name) => (event) => {
    asked[name] = event.target.value;
    preview = error = null;
    const mine = ++number;
    clearTimeout(timer);
    if (asked.note.trim())
      timer = setTimeout(async () => {
        try {
          const found = await ask("/v1/pause", { method: "POST", body: body(true) });
          if (mine === number) preview = found;
        } catch (problem) {
          if (mine === number) error = problem;
        }
        redraw();
      }, PAUSE);
    redraw();
  };
  const send = async () => {
    busy = true;
    redraw();
    try {
      await ask("/v1/pause", { method: "POST", body: body(false) });
      close();
      toast("good", (asked.of || "The pool") + " is paused.");
    } catch (problem) {
      error = problem;
      busy = false;
      redraw();
    }
  };
  show("Pause", () => [
    h("div", { class: "inside" },
      field("Note", "pause-note", { maxlength: "500", placeholder: "Reason, shown to everyone who uses the pool", autofocus: true }, changed("note")),
      h("div", { class: "form-line" }, h("label", { for: "pause-class", class: "quiet" }, "What"),
        h("select", { class: "field", id: "pause-class", on: { change: changed("of") } }, h("option", { value: "" }, "the whole pool"), names().map((name) => h("option", { value: name }, "class " + name)))),
      h("div", { class: "preview", role: "status" }, h("h3", null, "What would happen"), error ? h("p", { class: "error" }, error.message, error.remedy ? " " + error.remedy : "") : preview ? listed(preview) : h("p", { class: "quiet" }, asked.note.trim() ? "Asking the server." : "Write a note first.")),
      command("bullpen pause" + (asked.of ? " --class " + quoted(asked.of) : "") + " --note " + quoted(asked.note || "NOTE"))),
    buttons("Pause", preview && !busy, send),
  ]);
}

/** Show what would happen, and do it when that is confirmed. */
function confirm(title, word, preview, line, run) {
  let shown = null;
  let error = null;
  let busy = false;
  const send = async () => {
    busy = true;
    redraw();
    try {
      await run();
      close();
    } catch (problem) {
      error = problem;
      busy = false;
      redraw();
    }
  };
  show(title, () => [
    h("div", { class: "inside" },
      h("div", { class: "preview", role: "status" }, h("h3", null, "What would happen"), shown || (error ? null : h("p", { class: "quiet" }, "Asking the server.")), error ? h("p", { class: "error" }, error.message, error.remedy ? " " + error.remedy : "") : null),
      command(line)),
    buttons(word, shown && !busy, send),
  ]);
  preview().then((found) => (shown = found), (problem) => (error = problem)).then(redraw);
}
