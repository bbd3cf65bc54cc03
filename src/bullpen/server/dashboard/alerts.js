// What needs attention, from the status and the waits: each is one line that leads to the page which explains it.

import { ago, plural } from "./format.js";
import { address } from "./router.js";
import { shared } from "./shell.js";
import { instances, silent } from "./store.js";

/** { glyph, tone, subject, text, at, href, place }: what is lost or fails first, then the newest. */
export function alerts(now) {
  const status = shared.status;
  const found = [];
  for (const one of shared.pauses || [])
    found.push({ glyph: "pause", tone: "warn", subject: one.resourceClass || "the pool", text: ` is paused: ${one.note}`, at: one.since, href: address("control"), place: "Control" });
  for (const one of status?.controls || [])
    if (one.state === "held") found.push({ glyph: "brake", tone: "warn", subject: one.name, text: `: losses are held back. ${one.why}`, at: one.heldSince, href: address("workers"), place: "Workers" });
  for (const one of status?.failingLoops || [])
    found.push({ glyph: "failed", tone: "lost", subject: one.loop, text: ` fails: ${one.error}`, at: one.since, href: address("control"), place: "Control" });
  for (const lost of [true, false]) found.push(...ofSilent([...silent.values()].filter((one) => instances.has(one.instanceId) && (one.state !== "active") === lost), lost));
  const waits = shared.waits?.filter((one) => !["booting", "cleaning", "queued-behind"].includes(one.cause));
  if (waits)
    for (const one of waits) found.push({ glyph: "wait", tone: "warn", subject: one.subject, text: ` waits: ${one.because}`, at: one.since, href: address("queue"), place: "Queue" });
  else
    for (const one of status?.waiting || [])
      found.push({ glyph: "wait", tone: "warn", subject: one.runId, text: ` waits for ${plural(one.count, "runner")} of ${one.resourceClass}: ${one.waitsFor} is full.`, at: one.since, href: address("queue"), place: "Queue" });
  for (const one of status?.scaleSets || [])
    if (one.why) found.push({ glyph: "refused", tone: "lost", subject: one.name, text: `: ${one.why}`, at: one.since, href: address("sets"), place: "Sets" });
  const file = status?.settings;
  if (file?.refused) found.push({ glyph: "failed", tone: "lost", subject: file.file, text: ` is not applied: ${file.refused}`, at: null, href: address("control"), place: "Control" });
  const milder = (one) => (one.tone === "lost" ? 0 : 1);
  found.sort((a, b) => milder(a) - milder(b) || (Date.parse(b.at) || now) - (Date.parse(a.at) || now));
  return found;
}

/** Each of a few, or all of many in one line. */
function ofSilent(list, lost) {
  const drawn = lost ? { glyph: "lost", tone: "lost" } : { glyph: "suspect", tone: "warn" };
  if (list.length > 2) {
    const last = list.reduce((a, b) => (a.heartbeatAt > b.heartbeatAt ? a : b));
    return [{ ...drawn, subject: plural(list.length, "worker"), text: lost ? " were lost." : " miss their leases.", at: last.heartbeatAt, href: address("workers"), place: "Workers" }];
  }
  return list.map((one) => {
    const jobs = one.jobIds.length ? `, with ${plural(one.jobIds.length, "job")} bound to it` : "";
    return { ...drawn, subject: one.instanceId, id: true, text: lost ? ` was lost${jobs}.` : ` misses its lease${jobs}.`, at: one.heartbeatAt, href: address("instances", one.instanceId), place: "Instance" };
  });
}

export const ageOf = (alert, now) => (alert.at ? ago(alert.at, now) : "");
