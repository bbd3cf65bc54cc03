// A wait, opened: its cause, what happens next, and who was refused by which rule.

import { CAUSES, RULES } from "./causes.js";
import { h } from "./dom.js";
import { count, length } from "./format.js";
import { mark, recordMark } from "./marks.js";
import { bold, idLink, table } from "./parts.js";

export function causePill(cause) {
  const { glyph, tone, word } = CAUSES[cause] || { glyph: "wait", tone: "warn", word: cause };
  const serious = tone === "warn" || tone === "lost" ? tone : "";
  return mark(glyph, tone, word, serious, "pill " + serious);
}

/** `detail` is the wait with its candidates, when they were asked for. */
export function waitBody(wait, detail = wait) {
  const refusals = (detail.refusals?.length ? detail.refusals : wait.refusals) || [];
  const candidates = detail.candidates || [];
  return [
    h("p", null, wait.because),
    wait.next || wait.secondsLeft !== null ? h("dl", { class: "facts" }, h("dt", null, "What happens next"), h("dd", null, wait.next, wait.secondsLeft === null || wait.secondsLeft === undefined ? "" : ` In about ${length(wait.secondsLeft)}.`)) : null,
    refusals.length ? h("div", null, h("h3", null, `${count(refusals.reduce((sum, one) => sum + one.count, 0))} instances ${wait.resourceClass ? "of " + wait.resourceClass : ""}, and the rule that refuses each`),
      table([["Count", "right tight"], "Rule"], refusals.map((one) => ({ key: one.rule, cells: [bold(count(one.count)), RULES[one.rule] || one.rule] })), "Refusals by rule")) : null,
    candidates.length ? h("details", null, h("summary", null, `Show ${count(candidates.length)} candidates one by one`),
      table(["Instance", "State", "Why not"], candidates.map((one) => ({ key: one.instanceId, cells: [idLink(one.instanceId, "instance"), recordMark(one.state, true), [RULES[one.rule] || one.rule, one.detail ? ": " + one.detail : ""]] })), "Candidates")) : null,
  ];
}
