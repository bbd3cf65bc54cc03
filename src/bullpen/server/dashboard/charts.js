// Line charts, sparks and bars by the hour. Lines are placed in shares of the box, so nothing is measured before drawing.
// One crosshair is common to all charts of a page: the legend shows the values under it.

import { h, s, setText } from "./dom.js";
import { count, length, minute, share, time } from "./format.js";
import { panel } from "./parts.js";

const specs = new Map(); // title → what the chart was drawn from
let crossed = null; // index of the value under the crosshair; null: the last one

/** `series` is [{ name, tone, values, format }]; `times` are those of the values; `marks` are troubles on the axis. */
export function lineChart({ title, note, series, times, marks = [], log = false, floor = 0, top, dataSince }) {
  const all = series.flatMap((one) => one.values).filter((value) => value !== null && value !== undefined);
  const high = nice(Math.max(top || 0, floor, ...all, log ? 1 : 0));
  const low = log ? 0.1 : 0;
  const scale = log ? (v) => (Math.log10(Math.max(low, v)) - Math.log10(low)) / (Math.log10(Math.max(high, 1)) - Math.log10(low)) : (v) => v / (high || 1);
  const x = (n) => (times.length > 1 ? (100 * n) / (times.length - 1) : 50);
  const y = (value) => 100 - 100 * Math.min(1, Math.max(0, scale(value)));
  const format = series[0]?.format || count;
  const ticks = log ? [0.1, 1, 10, 60, 300, 3600].filter((v) => v <= Math.max(1, high)) : [0, high / 2, high];
  specs.set(title, { series, times, x });
  const said = series.map((one) => {
    const known = one.values.filter((value) => value !== null && value !== undefined);
    return `${one.name}: ${known.length ? `now ${one.format(known.at(-1))}, highest ${one.format(Math.max(...known))}` : "no data"}`;
  }).join("; ");
  const plot = h("div", { class: "plot", role: "img", tabindex: "0", "aria-label": `${title}. ${said}. The arrow keys read single values.`, "data-chart": title,
    on: { pointermove: (event) => cross(Math.round((event.offsetX / event.currentTarget.clientWidth) * (times.length - 1))), pointerleave: () => cross(null), keydown: arrows } },
  s("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
    ticks.map((v) => s("line", { class: "grid", x1: 0, x2: 100, y1: y(v), y2: y(v), "vector-effect": "non-scaling-stroke" })),
    marks.map((one) => s("line", { class: "trouble", x1: one.x, x2: one.x, y1: 0, y2: 100, "vector-effect": "non-scaling-stroke" })),
    series.map((one) => s("path", { class: "line s-" + one.tone, d: path(one.values, x, y) }))),
  h("span", { class: "cross-line", hidden: true }));
  return panel({ title, note, extra: "chart-panel" },
    h("div", { class: "chart", key: "chart" },
      h("div", { class: "legend" }, series.map((one, n) => h("span", { key: one.name }, h("i", { class: "swatch " + swatch(one.tone) }), one.name, " ", h("b", { "data-value": title + "/" + n }, value(one, crossed))))),
      h("div", { class: "plot-box" },
        h("div", { class: "y-axis" }, ticks.map((v) => h("span", { style: { top: y(v) + "%" } }, format(v)))),
        plot,
        h("div", { class: "x-axis" }, [0, 0.33, 0.66, 1].map((part) => h("span", null, times.length ? minute(times[Math.round(part * (times.length - 1))]) : "")))),
      dataSince ? h("p", { class: "quiet" }, "No data before " + time(dataSince) + ".") : null));
}

const swatch = (tone) => ({ offer: "fill-offer", running: "fill-running", created: "fill-created-solid", ended: "fill-grey" })[tone];

function value(one, index) {
  const found = index === null ? one.values.findLast((v) => v !== null && v !== undefined) : one.values[index];
  return found === null || found === undefined ? "–" : one.format(found);
}

function path(values, x, y) {
  let d = "";
  let drawing = false;
  for (const [n, v] of values.entries()) {
    if (v === null || v === undefined) drawing = false;
    else {
      d += (drawing ? "L" : "M") + x(n).toFixed(2) + " " + y(v).toFixed(2);
      if (!drawing) d += "h0.01"; // a value that stands alone is a dot
      drawing = true;
    }
  }
  return d;
}

function arrows(event) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const spec = specs.get(event.currentTarget.dataset.chart);
  if (!by || !spec) return;
  event.preventDefault();
  cross(Math.max(0, Math.min(spec.times.length - 1, (crossed ?? spec.times.length - 1) + by)));
}

function cross(index) {
  crossed = index;
  for (const plot of document.querySelectorAll(".plot")) {
    const spec = specs.get(plot.dataset.chart);
    if (!spec) continue;
    const line = plot.lastChild;
    line.hidden = index === null || index < 0 || index >= spec.times.length;
    if (!line.hidden) line.style.left = spec.x(index) + "%";
    for (const [n, one] of spec.series.entries()) {
      const node = document.querySelector(`[data-value="${CSS.escape(plot.dataset.chart + "/" + n)}"]`);
      if (node) setText(node, value(one, line.hidden ? null : index));
    }
  }
}

export function spark(values, target, tone, label) {
  const known = values.filter((v) => v !== null && v !== undefined);
  if (known.length < 2) return h("span", { class: "quiet" }, "–");
  const high = 1.15 * Math.max(target || 0, 1, ...known);
  const x = (n) => (100 * n) / (values.length - 1);
  const y = (v) => 96 - (92 * v) / high;
  return s("svg", { class: "spark", viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": `${label}: now ${count(known.at(-1))}, lowest ${count(Math.min(...known))}` },
    target ? s("line", { class: "target", x1: 0, x2: 100, y1: y(target), y2: y(target), "vector-effect": "non-scaling-stroke" }) : null,
    s("path", { class: "line s-" + tone, d: path(values, x, y) }));
}

/** Bars that stand on each other, one pile for each hour. `piles` is [{ name, parts: [[fill, value]], title }]. */
export function hours(piles, label) {
  const high = Math.max(1e-9, ...piles.map((one) => one.parts.reduce((sum, [, v]) => sum + v, 0)));
  const every = Math.max(1, Math.ceil(piles.length / 8));
  return h("div", null,
    h("div", { class: "hours", role: "img", "aria-label": label }, piles.map((one) =>
      h("span", { key: one.key, title: one.title }, [...one.parts].reverse().map(([fill, v]) => (v ? h("i", { class: fill, style: { height: ((100 * v) / high).toFixed(2) + "%" } }) : null))))),
    h("div", { class: "hour-names quiet" }, piles.map((one, n) => h("span", null, n % every ? "" : one.name))));
}

function nice(v) {
  if (!v) return 1;
  const power = 10 ** Math.floor(Math.log10(v));
  return power * [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((k) => v <= k * power + 1e-9);
}

/** The charts of Pools: waits, reuse and cold starts, on offer. Null until there is an answer. */
export function poolCharts(series) {
  if (!series.ready) return null;
  const { times, marks, dataSince } = series;
  if (!times.length) return panel({ title: "The last 30 minutes" }, h("p", { class: "inside quiet" }, "No data before now: the server gathers them while it runs."));
  const common = { times, marks, note: "last 30 min" };
  const rate = (v) => share(v, 100);
  return h("div", { class: "thirds", key: "charts" },
    lineChart({ ...common, title: "Wait for a runner", log: true, series: [{ name: "p95", tone: "created", values: series.waits("waitP95"), format: length }, { name: "p50", tone: "running", values: series.waits("waitP50"), format: length }] }),
    lineChart({ ...common, title: "Reuse and cold starts", top: 100, series: [{ name: "reused", tone: "offer", values: series.reuse(), format: rate }, { name: "provisions with a cold start", tone: "created", values: series.coldStarts(), format: rate }] }),
    lineChart({ ...common, title: "On offer", floor: 4, dataSince, series: series.offers(count) }));
}
