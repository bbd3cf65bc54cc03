// Cost: what does it cost, and what does keeping warm cost?

import { hours } from "../charts.js";
import { h } from "../dom.js";
import { count, length, minute, money, plural, share, time } from "../format.js";
import { legend } from "../marks.js";
import { bold, command, empty, lead, panel, table, unanswered } from "../parts.js";
import { keep } from "../router.js";

const RANGES = [["24h", "24 h", "in the last 24 hours"], ["7d", "7 d", "in the last 7 days"], ["30d", "30 d", "in the last 30 days"]];
const OWNERS = [["run", "fill-running", "Runs"], ["idle", "fill-offer", "Idle, on offer"], ["boot", "fill-created", "Booting"], ["cleaning", "fill-cleaning", "Cleaning"]];
const MOST = 50; // rows of a table
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
      const { seconds, money: all } = answer.total;
      const idle = answer.owners.idle;
      const phrase = RANGES.find(([value]) => value === range)[2];
      if (!seconds) return [lead(QUESTION, "wait", `No machine ran ${phrase}.`, ranges), h("section", { class: "panel", key: "none" }, empty("No data in this range", answer.dataSince ? `There is no data before ${time(answer.dataSince, now)}.` : "The history begins when the first machine runs, and is kept for history.keep days.", "bullpen cost --since " + range))];
      const saved = answer.savedSeconds;
      const sentence = [all ? [bold(money(all)), ` ${phrase}. Idle machines are `, bold(share(idle.money, all)), " of it"] : [bold(length(seconds)), ` of machines ${phrase}, of which `, bold(share(idle.seconds, seconds)), " were idle"],
        answer.reused ? ["; they spared ", bold(count(answer.reused)), answer.reused === 1 ? " launch" : " launches", answer.avoidedSeconds === null ? "" : [" and ", bold(length(answer.avoidedSeconds)), " of booting"]] : "", ".", all ? "" : answer.missingPrices.length ? " Prices are missing." : " Their price is 0."];
      return [
        lead(QUESTION, answer.missingPrices.length ? "warn" : "good", sentence, ranges),
        h("section", { class: "panel", key: "owners" }, h("div", { class: "tiles" }, OWNERS.map(([owner, fill, name]) => tile(fill, name, answer.owners[owner], answer.total)),
          h("div", { class: "tile" }, h("div", { class: "label" }, "Saved by reuse, less idle"), h("b", { class: "figure" }, saved === null ? "–" : all ? signed(answer.savedMoney, money) : signed(saved, length)), " ", h("span", { class: "quiet" }, plural(answer.reused, "reuse"))))),
        panel({ title: "By hour", note: "UTC", footer: agree(answer) }, byHour.answer ? pile(byHour.answer, all, answer.dataSince, now) : unanswered(byHour, "cost by the hour")),
        h("div", { class: "columns", key: "columns" },
          h("div", null, rowsPanel("By repository", "Repository", answer)),
          h("div", null,
            byClass.answer ? rowsPanel("By class", "Class", byClass.answer, true) : panel({ title: "By class" }, unanswered(byClass, "cost by class")),
            prices(answer),
            panel({ title: "In a terminal" }, h("div", { class: "inside" }, command(`bullpen cost --since ${range} --by repository`))))),
      ];
    },
  };
}

const signed = (value, format) => (value < 0 ? "−" + format(-value) : format(value));

function tile(fill, name, sum, total) {
  const part = total.money ? share(sum.money, total.money) : share(sum.seconds, total.seconds);
  return h("div", { class: "tile", key: name }, h("div", { class: "label" }, h("i", { class: "swatch " + fill }), name), h("b", { class: "figure" }, total.money ? money(sum.money) : length(sum.seconds)), " ", h("span", { class: "quiet" }, part));
}

function agree(answer) {
  return Math.abs(answer.machines.seconds - answer.total.seconds) < 0.001 && Math.abs(answer.machines.money - answer.total.money) < 0.005 ? "Owned seconds and machine seconds agree: " + length(answer.total.seconds) + "." : h("span", { class: "ink-warn" }, `Owned seconds (${length(answer.total.seconds)}) and machine seconds (${length(answer.machines.seconds)}) differ.`);
}

/** Rows by hour and owner, as money, or as seconds where nothing has a price. */
function pile(answer, priced, dataSince, now) {
    const found = new Map();
  for (const row of answer.hours) {
    const hour = row.hour;
    if (!found.has(hour)) found.set(hour, {});
    const mine = found.get(hour);
    mine[row.owner] = (mine[row.owner] || 0) + (priced ? row.money : row.seconds);
  }
  if (!found.size) return h("p", { class: "inside quiet" }, "No data in this range.");
  const first = Date.parse(answer.since);
  const last = Math.max(first, Date.parse(answer.until) - 1);
  const piles = [];
  const step = last - first > 72 * 3600e3 ? 24 * 3600e3 : 3600e3;
  for (let at = Math.floor(first / step) * step; at <= last; at += step) {
    const sum = {};
    for (const [hour, parts] of found) if (Date.parse(hour) >= at && Date.parse(hour) < at + step) for (const [owner, value] of Object.entries(parts)) sum[owner] = (sum[owner] || 0) + value;
    const whole = Object.values(sum).reduce((a, b) => a + b, 0);
    const name = step > 3600e3 ? new Date(at).toISOString().slice(5, 10) : minute(at);
    const amount = priced ? money(whole) : length(whole);
    piles.push({ key: at, name, whole, amount, title: `${name}: ${amount}`, parts: OWNERS.map(([owner, fill]) => [fill, sum[owner] || 0]) });
  }
  const most = piles.reduce((a, b) => (a.whole > b.whole ? a : b));
  return h("div", { class: "inside" }, h("p", { class: "quiet" }, `Highest: ${most.amount}, ${most.name}`), hours(piles, `Cost from ${piles[0].name} to ${piles.at(-1).name}: ${piles.map((one) => one.title).slice(-24).join(", ")}`),
    h("div", { class: "below" }, legend(...OWNERS.map(([, fill, name]) => [fill, name])), dataSince && Date.parse(dataSince) > first ? h("span", { class: "quiet" }, `No data before ${time(dataSince, now)}.`) : null));
}

/** Rows by name: seconds by owner, and the money of all of them. */
function rowsPanel(title, head, answer, compact = false) {
  const { rows, total } = answer;
  if (!rows.length) return null;
  const size = (row) => (total.money ? row.money : row.totalSeconds);
  const most = Math.max(...rows.map(size), 1e-9);
  const columns = compact ? [head, ["Idle", "right"], ["Total", "right"], ["Share", "right"]] : [head, ["Runs", "right"], ["Booting", "right no-narrow"], ["Cleaning", "right no-narrow"], ["Idle", "right no-narrow"], ["Total", "right"], ["Share of the bill", "no-narrow"]];
  return panel({ title, note: count(rows.length + answer.moreRows) }, table(columns, rows.slice(0, MOST).map((row) => {
    const part = share(size(row), total.money || total.seconds);
    const name = row.name.startsWith("(") ? h("span", { class: "quiet" }, row.name.slice(1, -1)) : bold(row.name);
    const sum = bold(total.money ? money(row.money) : length(row.totalSeconds));
    if (compact) return { key: row.name, cells: [name, length(row.seconds.idle), sum, part] };
    const scale = row.totalSeconds ? (100 * size(row)) / most / row.totalSeconds : 0;
    const bar = h("div", { class: "bill" }, h("div", { class: "meter" }, OWNERS.map(([owner, fill]) => h("i", { class: fill, style: { width: (row.seconds[owner] * scale).toFixed(1) + "%" } }))), h("span", { class: "right" }, part));
    return { key: row.name, cells: [name, ...["run", "boot", "cleaning", "idle"].map((owner) => length(row.seconds[owner])), sum, bar] };
  }), title));
}

function prices(answer) {
  return [
    panel({ title: "Prices", note: "per hour" }, table(["Type", ["Price", "right"], ["Machines", "right"]], answer.types.slice(0, MOST).map((one) => ({
      key: one.instanceType + one.usageClass,
      cells: [h("span", null, h("span", { class: "mono" }, one.instanceType), " ", h("span", { class: "quiet" }, one.usageClass)), one.price === null ? h("span", { class: "ink-warn" }, "no price: counted as $0") : money(one.price, 4), length(one.seconds)],
    })), "Prices")),
    answer.missingPrices.length ? panel({ title: "Missing prices", note: count(answer.missingPrices.length) }, h("div", { class: "inside" },
      h("p", { class: "ink-warn" }, "These types have no price, so they are counted as $0: ", answer.missingPrices.join(", "), "."),
      h("p", { class: "quiet" }, `Set one in bullpen.toml, in USD per hour: history.prices."${answer.missingPrices[0]}" = 0.0816`))) : null,
  ];
}
