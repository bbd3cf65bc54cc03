// States and measures as drawings: each has a shape, a colour and a word.

import { glyph, h } from "./dom.js";
import { capital, count, length, ms, rough } from "./format.js";
import { GROUPS, groupOf, leases, silent } from "./store.js";

export const WORD = { offer: "On offer", cleaning: "Cleaning", running: "Running", claimed: "Claimed", created: "Booting", ended: "Ending" };
const STATES = { created: "created", claimed: "claimed", running: "running", terminated: "ended", active: "offer", inactive: "lost", cleaned: "ended" };
const TROUBLE = { lost: ["lost", "lost", "Lost"], suspect: ["suspect", "warn", "Suspect"], leaving: ["leaving", "warn", "Leaving"] };

/** Glyph, tone and word of an instance: trouble first, then what the record says. */
export function stateOf(one) {
  const found = TROUBLE[one.trouble];
  if (!found) return { glyph: one.group, tone: one.group, word: WORD[one.group], serious: "" };
  return { glyph: found[0], tone: found[1], word: found[2] + ", " + WORD[one.group].toLowerCase(), serious: found[1] };
}

export function mark(name, tone, word, serious = "", extra = "") {
  return h("span", { class: "mark " + serious + " " + extra }, glyph(name, tone), h("span", null, word));
}

export function instanceMark(one, extra = "") {
  const state = stateOf(one);
  return mark(state.glyph, state.tone, state.word, state.serious, extra);
}

/** A state of any record, as stories have it. */
export function recordMark(state, attested) {
  if (state === "idle") return mark(attested ? "offer" : "cleaning", "offer", "idle");
  const name = STATES[state];
  if (name === "lost") return mark("lost", "lost", state, "lost");
  const others = { queued: "queued", assigned: "claimed", finished: "good", aborted: "failed", open: "claimed", committed: "good" };
  return mark(name || others[state] || "queued", name || (state === "aborted" ? "lost" : "ended"), state);
}

const RESULTS = { succeeded: ["good", "offer"], failed: ["failed", "lost"], cancelled: ["cancelled", "ended"], "timed-out": ["failed", "lost"] };
export function jobMark(job) {
  if (job.state === "finished" || job.result) {
    const [name, tone] = RESULTS[job.result] || ["failed", "lost"];
    return mark(name, tone, capital(job.result || "finished"), tone === "lost" ? "lost" : "");
  }
  if (job.losses && job.state === "queued") return mark("rescued", "warn", "Waits again", "warn");
  const waits = job.state === "queued";
  return mark(waits ? "queued" : job.losses ? "rescued" : "running", waits ? "ended" : "running", capital(job.state));
}

/** What is left of a lease, for one instance: text, share of the bar, and how it looks. */
export function leaseOf(one, now) {
  const worker = silent.get(one.id);
  const beat = worker?.heartbeatAt || leases.get(one.id)?.heartbeatAt || one.heartbeatAt;
  if (one.group === "ended") return { kind: "over", text: "", share: 0 };
  if (one.trouble === "lost") return { kind: "gone", text: "lost" + (beat ? " " + rough((now - ms(beat)) / 1000) : ""), share: 1 };
  const lease = leases.get(one.id);
  if (!beat && !lease?.deadline) return { kind: "none", text: one.group === "created" ? "no beat yet" : "", share: 0 };
  const lasts = lease?.leaseSeconds || 15;
  const left = lease?.deadline ? (ms(lease.deadline) - now) / 1000 : lasts - (now - ms(beat)) / 1000;
  if (one.trouble === "suspect") return { kind: "out", text: "silent " + (beat ? rough((now - ms(beat)) / 1000) : ""), share: 1 };
  const shown = Math.max(0, Math.min(lasts, left));
  return { kind: left < lasts / 3 ? "low" : "ok", text: Math.ceil(shown) + "\u00a0s", share: shown / lasts };
}

export function leaseBar() {
  const fill = h("i");
  const text = h("span");
  const node = h("span", { class: "lease" }, h("span", { class: "bar" }, fill), text);
  let last = "";
  return {
    node,
    set(lease) {
      const seen = lease.kind + lease.text + lease.share;
      if (seen === last) return;
      last = seen;
      node.className = "lease " + lease.kind;
      node.firstChild.hidden = lease.kind === "over" || (lease.kind === "none" && !lease.text);
      fill.className = { ok: "fill-offer", low: "fill-warn", out: "fill-confirm" }[lease.kind] || "";
      fill.style.width = (100 * lease.share).toFixed(0) + "%";
      text.textContent = lease.text;
    },
  };
}

/** All instances of a class as one bar, and the six counts in fixed places below it. */
export function stack(counts) {
  const present = GROUPS.filter((group) => counts[group]);
  const said = GROUPS.map((group) => count(counts[group]) + " " + WORD[group].toLowerCase()).join(", ");
  return h("div", { class: "stack", role: "img", "aria-label": said },
    present.map((group) => h("span", { key: group, class: "fill-" + group, style: { flex: counts[group] + " 0 0" } })));
}

export function six(counts) {
  return h("div", { class: "six" }, GROUPS.map((group) =>
    h("span", { class: "mark" }, glyph(group), h("span", null, h("b", null, count(counts[group])), " " + WORD[group].toLowerCase()))));
}

/** On offer against the target: solid is on offer, hatched is coming, the line is the target. */
export function bullet(offer, coming, target) {
  const whole = Math.max(target * 1.25, offer + coming, 1);
  const part = (value) => ((100 * value) / whole).toFixed(2) + "%";
  const missing = Math.max(0, target - offer);
  const serious = missing > coming;
  const said = !target ? "no target" : missing ? `${count(missing)} short, ${count(coming)} coming` : coming ? `ready, ${count(coming)} coming` : "ready";
  return h("div", null,
    h("div", { class: "bullet", role: "img", "aria-label": `${offer} on offer, ${coming} coming, target ${target}` },
      h("span", { class: "fill-offer", style: { left: "0", width: part(offer) } }),
      h("span", { class: "fill-cleaning", style: { left: part(offer), width: part(coming) } }),
      target ? h("span", { class: "tick", style: { left: part(target) } }) : null),
    h("div", { class: serious ? "ink-warn" : "quiet" }, said));
}

export function legend(...entries) {
  return h("div", { class: "legend" }, entries.map(([fill, word]) => h("span", null, h("i", { class: "swatch " + fill }), word)));
}

export const debtMark = (owes, now) => {
  const late = (now - ms(owes.dueAt)) / 1000;
  return mark("debt", "created", "owes " + owes.kind.replace(/-/g, " ") + (late > 5 ? ", " + length(late) + " overdue" : ""));
};
export { groupOf };
