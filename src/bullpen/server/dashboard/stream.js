// The event stream. Everything there is comes first, then everything that changes. What arrives waits in a line and is
// taken in by slices of a few milliseconds, so that the page answers while 5,000 instances arrive.
//
// It is read with `fetch`, because an EventSource hides the comments that the server sends while nothing happens: without
// them a connection that was cut in silence (a sleeping laptop, another network) would look like a quiet pool for hours.

const SLICE = 8; // milliseconds
const QUIET = 1500; // milliseconds without an event after which everything there is has arrived, from a server that does not say so
const SILENT = 40000; // milliseconds without a byte after which the connection is lost: the server sends one every 15 seconds
const RETRY = [1, 2, 3, 5, 8, 10]; // seconds
const ADDRESS = "/v1/events";

export class Stream {
  constructor({ event, whole, state }) {
    this.onEvent = event; // (kind, data)
    this.onWhole = whole; // everything that there was at the beginning has arrived
    this.onState = state; // "connecting", "live", "lost" with the time of the next try
    this.line = [];
    this.head = 0;
    this.busy = false;
    this.tries = 0;
    this.stop = null; // ends the reading of the open stream; null if none is open
    this.channel = new MessageChannel();
    this.channel.port1.onmessage = () => this.slice();
  }

  open() {
    this.close();
    this.complete = false;
    this.heard = false;
    this.read((this.stop = new AbortController()));
  }

  async read(stop) {
    this.heardAt = Date.now();
    try {
      const response = await fetch(ADDRESS, { signal: stop.signal, cache: "no-store", headers: { accept: "text/event-stream" } });
      if (!response.ok) throw new Error("the server answered " + response.status);
      if (stop !== this.stop) return;
      this.tries = 0;
      this.onState("live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ; ) {
        const { value, done } = await reader.read();
        if (stop !== this.stop) return;
        if (done) break;
        this.heardAt = Date.now();
        const parts = (text + value).split("\n\n");
        text = parts.pop();
        for (const part of parts) this.arrived(part);
      }
    } catch {
      // as if it had ended
    }
    if (stop === this.stop) this.lost();
  }

  /** Try again in a while: the stream has ended, or is known not to bring anything any more. */
  lost() {
    if (!this.stop) return;
    this.close();
    const wait = RETRY[Math.min(this.tries++, RETRY.length - 1)];
    this.again = setTimeout(() => this.open(), wait * 1000);
    this.onState("lost", Date.now() + wait * 1000);
  }

  /** Called now and then: whether it still brings anything. */
  check() {
    if (this.stop && Date.now() - this.heardAt > SILENT) this.lost();
  }

  retry() {
    this.onState("connecting");
    this.open();
  }

  close() {
    clearTimeout(this.again);
    clearTimeout(this.quiet);
    this.stop?.abort();
    this.stop = null;
    this.line = [];
    this.head = 0;
  }

  arrived(text) {
    this.line.push(text);
    if (!this.busy) {
      this.busy = true;
      this.channel.port2.postMessage(0);
    }
  }

  slice() {
    const end = performance.now() + SLICE;
    while (this.head < this.line.length && performance.now() < end) this.take(this.line[this.head++]);
    if (this.head < this.line.length) return this.channel.port2.postMessage(0);
    this.line = [];
    this.head = 0;
    this.busy = false;
    if (!this.complete && this.heard) {
      clearTimeout(this.quiet);
      this.quiet = setTimeout(() => this.finished(), QUIET);
    }
  }

  /** One event as the server writes it: a line for its number, its kind, and its data. */
  take(text) {
    const kind = /^event: (.+)$/m.exec(text)?.[1];
    const data = /^data: (.+)$/m.exec(text)?.[1];
    if (!kind || !data) return; // a comment
    this.heard = true;
    this.onEvent(kind, JSON.parse(data));
    if (kind === "ready") this.finished();
  }

  finished() {
    if (this.complete) return;
    this.complete = true;
    clearTimeout(this.quiet);
    this.onWhole();
  }
}
