// The end of what a job printed. The server sends a piece of a log from an offset on, and nothing at its end: the end is
// searched once, and then only what is new is read.

import { askBytes, at } from "./api.js";
import { h } from "./dom.js";
import { panel } from "./parts.js";

const PIECE = 65536; // bytes that the server sends at most, and that are shown
const LONGEST = 64; // pieces: the server keeps no more of a log
const EVERY = 3000; // milliseconds

export class JobLog {
  constructor(redraw) {
    this.redraw = redraw;
    this.busy = false;
  }

  /** Read what is new, now and then while the job runs, and once more when it has ended. */
  follow(job) {
    if (this.id !== job.id || this.fence !== job.fence) Object.assign(this, { id: job.id, fence: job.fence, state: "", offset: null, tail: new Uint8Array(), text: null, error: null, readAt: -Infinity });
    const due = job.state === "running" || this.state !== job.state;
    if (due && !this.busy && performance.now() - this.readAt > EVERY) this.read(job);
  }

  async read({ id, fence, state }) {
    const piece = (offset) => askBytes(at`/v1/jobs/${id}/logs?fence=${fence}&offset=${offset}`);
    this.busy = true;
    try {
      let from = this.offset ?? (await lastPiece(piece)) * PIECE;
      let tail = this.tail;
      for (let more; (more = await piece(from)).length; from += more.length) tail = joined(tail, more);
      if (id !== this.id || fence !== this.fence) return;
      Object.assign(this, { state, offset: from, tail, text: new TextDecoder().decode(tail), error: null });
    } catch (error) {
      this.error = error;
    } finally {
      this.busy = false;
      this.readAt = performance.now();
      this.redraw();
    }
  }

  panel(note) {
    return panel({ title: "Log", note: [note, this.offset > this.tail.length ? `, the last ${PIECE / 1024} KiB` : ""] },
      this.text ? h("pre", { class: "log", tabindex: "0", "aria-label": "Log" }, this.text)
        : h("p", { class: "inside quiet" }, this.error ? this.error.message : this.text === null ? "Loading" : "It has printed nothing."));
  }
}

/** The number of the last piece but one that has anything, by halving. */
async function lastPiece(piece) {
  let some = 0;
  let none = LONGEST + 1;
  while (none - some > 1) {
    const middle = (some + none) >> 1;
    if ((await piece(middle * PIECE)).length) some = middle;
    else none = middle;
  }
  return Math.max(0, some - 1);
}

function joined(a, b) {
  const whole = new Uint8Array(a.length + b.length);
  whole.set(a);
  whole.set(b, a.length);
  return whole.slice(-PIECE);
}
