// Pools: is a warm runner ready for the next run?

import { provisionDialog } from "../actions.js";
import { ageOf, alerts } from "../alerts.js";
import { poolCharts, spark } from "../charts.js";
import { glyph, h } from "../dom.js";
import { capital, count, length, ms, plural, share, time } from "../format.js";
import { bullet, six, stack } from "../marks.js";
import { bold, empty, idLink, lead, panel, table } from "../parts.js";
import { address } from "../router.js";
import { Series } from "../series.js";
import { may } from "../session.js";
import { shared } from "../shell.js";
import { classes, instances, total } from "../store.js";

const MOST_NAMED = 4; // classes that the answer names
const MOST_ALERTS = 5;
const NONE = { offer: 0, cleaning: 0, running: 0, claimed: 0, created: 0, ended: 0 };

export default function pools(context) {
  const series = new Series(context.resource("/v1/series?minutes=30", 15));

  return {
    draw() {
      const now = context.now();
      const provision = may("operate") ? h("button", { type: "button", class: "button first", on: { click: () => provisionDialog() } }, "Provision…") : null;
      const list = rows(series, now);
      const needed = alerts(now);
      if (!instances.size && !list.some((one) => one.target || one.wait))
        return [
          lead("Is a warm runner ready for the next run?", needed.length ? "warn" : "wait", "Nothing is in the pool yet.", provision),
          needed.length ? attention(needed, now) : null,
          h("section", { class: "panel", key: "empty" }, empty("No runner has been asked for",
            "Ask for some, or set how many a class keeps on offer. What you do in a terminal appears here at once.",
            "bullpen provision --run-id 4711 --count 3", "bullpen refresh --set classes.small.idle-target=2",
            h("p", { class: "quiet" }, "For GitHub Actions, docs/github.md leads from an App to the first run."))),
        ];
      return [
        lead("Is a warm runner ready for the next run?", tone(list), sentence(list), provision),
        needed.length ? attention(needed, now) : null,
        panel({ title: "Pools", note: plural(instances.size, "instance"), footer: "Solid: settled. Hatched: on its way to the next state. Reuse and cold starts: last 30 minutes." }, poolTable(list, series)),
        poolCharts(series, now),
      ];
    },
  };
}

function rows(series, now) {
  const known = new Map((shared.status?.pools || []).map((one) => [one.resourceClass, one]));
  const names = [...new Set([...known.keys(), ...[...classes.keys()].sort()])]; // those of the settings in their order
  return names.map((name) => {
    const pool = known.get(name);
    const counts = classes.get(name) || NONE;
    const waits = (shared.waits || shared.status?.waiting || []).filter((one) => one.resourceClass === name && one.since);
    const coming = counts.cleaning + unclaimed(name);
    return {
      name, pool, counts, coming,
      target: pool?.idleTarget || 0,
      paused: (shared.pauses || []).find((one) => !one.resourceClass || one.resourceClass === name),
      wait: waits.length ? Math.max(...waits.map((one) => (now - ms(one.since)) / 1000)) : null,
      ...series.of(name),
    };
  });
}

/** Booting instances that no run waits for: they will be on offer. */
function unclaimed(name) {
  if (!classes.get(name)?.created) return 0;
  let found = 0;
  for (const one of instances.values()) if (one.group === "created" && one.resourceClass === name && !one.runId) found++;
  return found;
}

const short = (one) => Math.max(0, one.target - one.counts.offer);

function tone(list) {
  if (list.some((one) => one.paused || short(one) > one.coming)) return "warn";
  return total.offer ? "good" : "wait";
}

function sentence(list) {
  const said = list.filter((one) => one.target || one.counts.offer || one.wait !== null || one.paused);
  if (!said.length) return "No runner is on offer, and no class has an idle target: the next run gets new ones.";
  if (said.length > MOST_NAMED) {
    const lacking = said.filter(short);
    return lacking.length ? [bold(count(said.length - lacking.length)), ` of ${count(said.length)} classes are ready; `, bold(lacking[0].name), ` and ${count(lacking.length - 1)} others are short.`]
      : ["All ", bold(count(said.length)), " classes are ready."];
  }
  return said.map((one) => {
    const parts = [bold(one.name)];
    if (one.paused) parts.push(" is paused. ");
    else if (short(one)) parts.push(` is ${count(short(one))} short of its target`, one.coming ? `, ${count(one.coming)} coming. ` : ". ");
    else if (one.counts.offer) parts.push(` is ready: ${count(one.counts.offer)} on offer. `);
    else parts.push(" has none on offer. ");
    return parts;
  });
}

function attention(list, now) {
  const note = list.length > MOST_ALERTS ? `${count(MOST_ALERTS)} of ${count(list.length)}, the worst and the newest` : count(list.length) + " open";
  return panel({ title: "Needs attention", note },
    list.slice(0, MOST_ALERTS).map((one) => h("div", { class: "list-row", key: one.subject + one.text },
      glyph(one.glyph, one.tone),
      h("span", { class: "grow" }, one.id ? idLink(one.subject, "instance") : bold(one.subject), one.text),
      h("span", { class: "quiet nowrap" }, ageOf(one, now)),
      h("a", { class: "link nowrap", href: one.href }, one.place))));
}

function poolTable(list, series) {
  const wide = series.ready;
  const columns = ["Class", "On offer against target", "All instances", ...(wide ? [["Reuse", "right"], ["Cold starts", "right"]] : []), ["Oldest wait", "right"], ...(wide ? [["On offer, 30 min", "no-narrow"]] : [])];
  return table(columns, list.map((one) => ({
    key: one.name,
    cells: [
      h("div", null, h("a", { class: "pool-name", href: address("instances") + "?class=" + encodeURIComponent(one.name) }, bold(one.name)),
        h("div", { class: "quiet" }, target(one)),
        one.paused ? h("div", { class: "ink-warn" }, "paused: " + one.paused.note) : null),
      h("div", { class: "wide-cell" }, h("span", { class: "figure" }, count(one.counts.offer)), h("span", { class: "quiet" }, one.target ? ` of ${count(one.target)}` : " on offer"), bullet(one.counts.offer, one.coming, one.target)),
      h("div", { class: "wide-cell" }, stack(one.counts), six(one.counts)),
      ...(wide ? [one.selected + one.created ? share(one.selected, one.selected + one.created) : "–", count(one.coldStarts)] : []),
      one.wait === null ? h("span", { class: "quiet" }, "none") : h("a", { class: "link", href: address("queue") }, length(one.wait)),
      ...(wide ? [spark(one.onOffer, one.target, "offer", `${one.name} on offer in the last 30 minutes`)] : []),
    ],
  })), "Pools", "cards");
}

function target(one) {
  const pool = one.pool;
  if (!pool) return "not in the settings any more";
  if (!one.target && !pool.nextTargetAt) return "no idle target";
  const then = pool.nextTargetAt ? ` until ${time(pool.nextTargetAt)}, then ${count(pool.nextTarget)}` : "";
  return capital("target " + count(one.target)) + then;
}
