// Workers: who has gone silent?

import { cellMap } from "../cells.js";
import { h } from "../dom.js";
import { ago, count, plural, share, time } from "../format.js";
import { legend, mark } from "../marks.js";
import { bold, bones, empty, idLink, lead, panel, problem, table } from "../parts.js";
import { shared } from "../shell.js";
import { news } from "../store.js";

const MOST = 100; // silent workers that the table shows

export default function page(context) {
  const suspects = context.resource("/v1/workers?state=suspect&limit=100", 3);
  const lost = context.resource("/v1/workers?state=inactive&limit=100", 3);
  return {
    draw() {
      const now = context.now();
      const status = shared.status;
      if (!status) return suspects.error ? [problem(suspects.error, "about workers")] : bones();
      const domains = news.domains.length ? news.domains : status.workers;
      const known = new Map([...(suspects.answer?.workers || []), ...(lost.answer?.workers || [])].map((one) => [one.key, one]));
      const silent = status.silentWorkers.map((one) => ({ ...known.get(one.key), ...one }));
      const suspect = silent.filter((one) => one.state === "active");
      const gone = domains.reduce((sum, one) => sum + one.inactive, 0);
      const all = domains.reduce((sum, one) => sum + one.active + one.inactive, 0);
      const braked = status.controls.filter((one) => one.state === "held");
      if (!all) return [lead("Who has gone silent?", "wait", "There are no workers."), h("section", { class: "panel", key: "none" }, empty("No workers", "Each instance reports as a worker once it has booted; other programs may send heartbeats, too.", "bullpen provision --run-id 4711 --count 3"))];
      const answer = [suspect.length || gone ? [bold(count(suspect.length)), " suspect and ", bold(count(gone)), " lost, of ", bold(plural(all, "worker")), ". "] : ["All ", bold(plural(all, "worker")), " are heard. "], braked.map((one) => [bold(one.name), ": losses are held back. "]), status.hold ? status.hold : ""];
      return [
        lead("Who has gone silent?", gone ? "lost" : suspect.length || braked.length ? "warn" : "good", answer),
        h("div", { class: "domains", key: "domains" }, domains.map((one) => domain(one, suspect.filter((other) => (other.domain || "") === one.domain).length, braked.find((other) => other.name === one.domain)))),
        h("div", { class: "below", key: "legend" }, legend(["fill-offer", "heard"], ["fill-confirm", "suspect"], ["fill-lost", "lost"]), h("span", { class: "quiet" }, "One cell for each worker.")),
        panel({ title: "Silent workers", note: count(silent.length) }, silent.length ? silentTable(silent.slice(0, MOST), now) : h("p", { class: "inside quiet" }, "None. A worker is listed here once it misses its lease.")),
      ];
    },
  };
}

function domain(one, suspect, brake) {
  const all = one.active + one.inactive;
  const silent = suspect + one.inactive;
  return panel({ title: one.domain || "default", key: one.domain, extra: brake ? "braked" : "", end: brake ? mark("brake", "warn", "braked", "warn", "pill") : mark("good", "offer", "heard", "", "pill"),
    footer: h("span", null, bold(count(all)), all === 1 ? " worker, " : " workers, ", silent ? [bold(count(silent)), ` silent (${share(silent, all)})`] : "none silent", brake?.why ? ". " + brake.why : "") },
  h("div", { class: "inside" }, cellMap({ lost: one.inactive, suspect, heard: one.active - suspect }, `${count(all)} workers of ${one.domain || "default"}: ${count(one.inactive)} lost, ${count(suspect)} suspect`)));
}

function silentTable(silent, now) {
  return table(["Worker", ["State", "nowrap"], ["Domain", "no-narrow"], ["Last beat", "right"], ["Epoch", "right no-narrow"], "Jobs", "What follows"], silent.map((one) => ({
    key: one.key,
    cells: [
      idLink(one.key, "worker"),
      one.state === "active" ? mark("suspect", "warn", "suspect", "warn") : mark("lost", "lost", one.mayReturn ? "lost, may come back" : "lost", "lost"),
      one.domain || "–",
      h("span", { title: one.heartbeatAt }, one.heartbeatAt ? `${time(one.heartbeatAt, now)}, ${ago(one.heartbeatAt, now)}` : "–"),
      String(one.epoch),
      one.jobIds.length ? one.jobIds.slice(0, 3).map((id) => [idLink(id, "job"), " "]).concat(one.jobIds.length > 3 ? `and ${count(one.jobIds.length - 3)} more` : "") : "none",
      one.state === "active" ? "given up if it stays silent" : one.cleanupAt ? "cleaned up at " + time(one.cleanupAt, now) : one.mayReturn ? "may come back" : "its instance is ended",
    ],
  })), "Silent workers");
}
