// A cell for each worker, drawn on one canvas: 5,000 elements would cost more than all other parts of the page.

import { h } from "./dom.js";

const MOST = 4000; // cells that are drawn; above that one cell stands for several workers

/** `counts` is { lost, suspect, heard }. */
export function cellMap(counts, label) {
  const canvas = h("canvas", { role: "img", "aria-label": label });
  canvas.setAttribute("data-cells", JSON.stringify(counts));
  requestAnimationFrame(drawAll);
  return h("div", { class: "cells" }, canvas);
}

const observer = new ResizeObserver(() => requestAnimationFrame(drawAll));

function drawAll() {
  for (const canvas of document.querySelectorAll("canvas[data-cells]")) {
    observer.observe(canvas.parentNode);
    draw(canvas, JSON.parse(canvas.dataset.cells));
  }
}

function draw(canvas, { lost, suspect, heard }) {
  const width = canvas.parentNode.clientWidth;
  if (!width) return;
  const all = lost + suspect + heard;
  const each = Math.max(1, Math.ceil(all / MOST));
  const size = all / each > 600 ? 7 : 14;
  const step = size + 2;
  const columns = Math.max(1, Math.floor((width + 2) / step));
  const cells = [["lost", lost], ["suspect", suspect], ["heard", heard]].flatMap(([kind, n]) => Array(Math.ceil(n / each)).fill(kind));
  const height = Math.max(step, Math.ceil(cells.length / columns) * step);
  const seen = [width, lost, suspect, heard, matchMedia("(prefers-color-scheme: dark)").matches, document.documentElement.dataset.theme].join();
  if (canvas.drawn === seen) return;
  canvas.drawn = seen;
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const used = {};
  const probe = document.createElement("i");
  canvas.parentNode.append(probe);
  for (const [kind, fill] of [["lost", "--lost"], ["suspect", "--warn"], ["heard", "--offer"]]) {
    probe.style.color = `var(${fill})`;
    used[kind] = getComputedStyle(probe).color;
  }
  probe.remove();
  for (const [n, kind] of cells.entries()) {
    const x = (n % columns) * step;
    const y = Math.floor(n / columns) * step;
    pen.fillStyle = pen.strokeStyle = used[kind];
    pen.lineWidth = 1.5;
    pen.beginPath();
    if (kind === "heard") pen.rect(x, y, size, size);
    else if (kind === "suspect") {
      pen.moveTo(x + size / 2, y + 1);
      pen.lineTo(x + size - 0.5, y + size - 1);
      pen.lineTo(x + 0.5, y + size - 1);
    } else {
      pen.moveTo(x + size / 2, y);
      pen.lineTo(x + size, y + size / 2);
      pen.lineTo(x + size / 2, y + size);
      pen.lineTo(x, y + size / 2);
    }
    pen.closePath();
    kind === "suspect" ? pen.stroke() : pen.fill();
  }
}
