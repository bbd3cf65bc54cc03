// Cost: what does it cost, and what does keeping warm cost?

import { hours } from "../charts.js";
import { h } from "../dom.js";
import { count, length, minute, money, share, time } from "../format.js";
import { legend } from "../marks.js";
import { bold, command, empty, lead, panel, table, unanswered } from "../parts.js";
import { keep } from "../router.js";

const RANGES = [["24h", "24 h", "in the last 24 hours"], ["7d", "7 d", "in the last 7 days"], ["30d", "30 d", "in the last 30 days"]];
const OWNERS = [["run", "fill-running", "Runs"], ["idle", "fill-offer", "Idle, on offer"], ["boot", "fill-created", "Booting"], ["cleaning", "fill-cleaning", "Cleaning"]];
const QUESTION = "What does it cost, and what does keeping warm cost?";

export default function page(context) {
  let range = RANGES.some(([value]) => value === context.query.get("since")) ? context.query.get("since") : "24h";
  const path = (by) => `/v1/cost?since=${range}&by=${by}`;
  const byRepository = context.resource(path("repository"), 30);
  const byClass = context.resource(path("class"), 30);
  const byHour = context.resource(`/v1/cost/hours?since=${range}`, 30);

  const choose = (value) => {
    range = value;
    keep({ since: value });
    byRepository.ask(path("repository"));
    byClass.ask(path("class"));
    byHour.ask(`/v1/cost/hours?since=${value}`);
    context.redraw();
  };

  return {
    draw() {
      const now = context.now();
      const ranges = h("div", { class: "chips tight", role: "group", "aria-label": "Range" }, RANGES.map(([value, name]) => h("button", { type: "button", class: "chip", key: value, "aria-pressed": String(value === range), on: { click: () => choose(value) } }, name)));
      const answer = byRepository.answer;
      if (!answer) return [lead(QUESTION, "wait", byRepository.error ? "The cost is not known." : "Adding up.", ranges), panel({ title: "Cost" }, unanswered(byRepository, "what it costs"))];
      const all = number(answer.total);
      const seconds = answer.total.seconds;
      const idle = number(answer.owners.idle);
      const phrase = RANGES.find(([value]) => value === range)[2];
      if (!seconds) return [lead(QUESTION, "wait", `No machine ran ${phrase}.`, ranges), h("section", { class: "panel", key: "none" }, empty("No data in this range", answer.dataSince ? `There is no data before ${time(answer.dataSince, now)}.` : "The history begins when the first machine runs.", "bullpen cost --since " + range))];
      const sentence = all === null || all === 0
        ? [bold(length(seconds)), ` of machines ${phrase}, of which `, bold(share(answer.owners.idle?.seconds || 0, seconds)), " idle. ", all === 0 ? "They cost nothing: their price is 0." : "No price is known for them."]
        : [bold(money(all)), ` ${phrase}. Idle machines are `, bold(share(idle, all)), " of it; reuse saved ", bold(length(answer.savedSeconds)), " of waiting", answer.savedMoney ? [" and ", bold(money(answer.savedMoney))] : "", "."];
      return [
        lead(QUESTION, answer.missingPrices.length ? "warn" : "good", sentence, ranges),
        h("section", { class: "panel", key: "owners" }, h("div", { class: "tiles" }, OWNERS.map(([owner, fill, name]) => tile(fill, name, answer.owners[owner], answer.total)),
          h("div", { class: "tile" }, h("div", { class: "label" }, "Saved by reuse"), h("b", { class: "figure" }, answer.savedMoney === null ? length(answer.savedSeconds) : money(answer.savedMoney)), " ", h("span", { class: "quiet" }, length(answer.savedSeconds))))),
        panel({ title: "By hour", note: "UTC", footer: agree(answer) }, byHour.answer ? pile(byHour.answer, all, answer.dataSince, now) : unanswered(byHour, "cost by the hour")),
        h("div", { class: "columns", key: "columns" },
          h("div", null, rowsPanel("By repository", "Repository", answer.rows, answer.total, "idle, or not known")),
          h("div", null,
            byClass.answer ? rowsPanel("By class", "Class", byClass.answer.rows, answer.total, "no class", true) : panel({ title: "By class" }, unanswered(byClass, "cost by class")),
            prices(answer),
            panel({ title: "In a terminal" }, h("div", { class: "inside" }, command(`bullpen cost --since ${range} --by repository`))))),
      ];
    },
  };
}

const number = (sum) => (sum && sum.money !== null && sum.money !== undefined ? Number(sum.money) : null);
const amount = (sum) => (number(sum) === null ? length(sum?.seconds || 0) : money(sum.money));

function tile(fill, name, sum, total) {
  return h("div", { class: "tile", key: name }, h("div", { class: "label" }, h("i", { class: "swatch " + fill }), name), h("b", { class: "figure" }, amount(sum)), " ", h("span", { class: "quiet" }, number(total) ? share(number(sum), number(total)) : share(sum?.seconds || 0, total.seconds)));
}

function agree(answer) {
  if (!answer.machines) return null;
  return answer.machines.seconds === answer.total.seconds ? "Owned seconds and machine seconds agree: " + length(answer.total.seconds) + "." : h("span", { class: "ink-warn" }, `Owned seconds (${length(answer.total.seconds)}) and machine seconds (${length(answer.machines.seconds)}) differ.`);
}

/** Rows by hour and owner, as money, or as seconds where nothing has a price. */
function pile(answer, priced, dataSince, now) {
  const rows = answer.rows || answer.hours || [];
  const found = new Map();
  for (const row of rows) {
    const hour = row.hour || row.at;
    if (!found.has(hour)) found.set(hour, {});
    const mine = found.get(hour);
    mine[row.owner] = (mine[row.owner] || 0) + (priced ? Number(row.money || 0) : row.seconds);
  }
  if (!found.size) return h("p", { class: "inside quiet" }, "No data in this range.");
  const names = [...found.keys()].sort();
  const first = Date.parse(names[0]);
  const last = Date.parse(names.at(-1));
  const piles = [];
  const step = names.length > 72 || last - first > 72 * 3600e3 ? 24 * 3600e3 : 3600e3;
  for (let at = Math.floor(first / step) * step; at <= last; at += step) {
    const sum = {};
    for (const [hour, parts] of found) if (Date.parse(hour) >= at && Date.parse(hour) < at + step) for (const [owner, value] of Object.entries(parts)) sum[owner] = (sum[owner] || 0) + value;
    const whole = Object.values(sum).reduce((a, b) => a + b, 0);
    const name = step > 3600e3 ? new Date(at).toISOString().slice(5, 10) : minute(at);
    piles.push({ key: at, name, title: `${name}: ${priced ? money(whole) : length(whole)}`, parts: OWNERS.map(([owner, fill]) => [fill, sum[owner] || 0]) });
  }
  return h("div", { class: "inside" }, hours(piles, `Cost from ${piles[0].name} to ${piles.at(-1).name}: ${piles.map((one) => one.title).slice(-24).join(", ")}`),
    h("div", { class: "below" }, legend(...OWNERS.map(([, fill, name]) => [fill, name])), dataSince && Date.parse(dataSince) > now - 30 * 86400e3 ? h("span", { class: "quiet" }, `No data before ${time(dataSince, now)}.`) : null));
}

function rowsPanel(title, head, rows, total, unnamed, compact = false) {
  if (!rows.length) return null;
  const of = (row, owner) => row.owners?.[owner] || { seconds: row[owner + "Seconds"] ?? row.seconds?.[owner] ?? 0, money: null };
  const whole = (row) => ({ seconds: row.total?.seconds ?? Object.values(row.seconds || {}).reduce((a, b) => a + b, 0), money: row.money ?? row.total?.money ?? null });
  const columns = compact ? [head, ["Idle", "right"], ["Total", "right"], ["Share", "right"]] : [head, ["Runs", "right"], ["Booting", "right no-narrow"], ["Cleaning", "right no-narrow"], ["Idle", "right no-narrow"], ["Total", "right"], ["Share of the bill", "no-narrow"]];
  return panel({ title, note: count(rows.length) }, table(columns, rows.slice(0, 50).map((row) => {
    const sum = whole(row);
    const part = number(total) ? share(number(sum), number(total)) : share(sum.seconds, total.seconds);
    const name = row.name ? bold(row.name) : h("span", { class: "quiet" }, unnamed);
    const bar = h("div", { class: "bill" }, h("div", { class: "meter" }, h("div", { class: "fill-running", style: { width: part.replace(/[^\d]/g, "") + "%" } })), h("span", null, part));
    return { key: row.name, cells: compact ? [name, amount(of(row, "idle")), bold(amount(sum)), part] : [name, ...["run", "boot", "cleaning", "idle"].map((owner) => amount(of(row, owner))), bold(amount(sum)), bar] };
  }), title));
}

function prices(answer) {
  if (!answer.missingPrices.length) return null;
  return panel({ title: "Missing prices", note: count(answer.missingPrices.length) }, h("div", { class: "inside" },
    h("p", { class: "ink-warn" }, "These types have no price, so they are counted as $0: ", answer.missingPrices.join(", "), "."),
    h("p", { class: "quiet" }, `Set one in bullpen.toml, per hour: [prices] "${answer.missingPrices[0]}" = 0.0816`)));
}
