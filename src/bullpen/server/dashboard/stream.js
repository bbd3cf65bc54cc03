// The event stream. Everything there is comes first, then everything that changes. What arrives waits in a line and is
// taken in by slices of a few milliseconds, so that the page answers while 5,000 instances arrive.

const SLICE = 8; // milliseconds
const QUIET = 1500; // milliseconds without an event after which everything there is has arrived, from a server that does not say so
const RETRY = [1, 2, 3, 5, 8, 10]; // seconds
const KINDS = ["instance", "job", "workers", "operation", "gone", "trouble", "silent", "leases", "holds", "ready"];

export class Stream {
  constructor({ event, whole, state }) {
    this.onEvent = event; // (kind, data)
    this.onWhole = whole; // everything that there was at the beginning has arrived
    this.onState = state; // "connecting", "live", "lost" with the time of the next try
    this.line = [];
    this.head = 0;
    this.busy = false;
    this.tries = 0;
    this.channel = new MessageChannel();
    this.channel.port1.onmessage = () => this.slice();
  }

  open(address = "/v1/events") {
    this.close();
    this.address = address;
    this.complete = false;
    this.heard = false;
    const source = new EventSource(address);
    this.source = source;
    for (const kind of KINDS) source.addEventListener(kind, (event) => source === this.source && this.arrived(kind, event.data));
    source.onopen = () => {
      this.tries = 0;
      this.onState("live");
    };
    source.onerror = () => {
      if (source !== this.source) return;
      this.close();
      const wait = RETRY[Math.min(this.tries++, RETRY.length - 1)];
      this.again = setTimeout(() => this.open(address), wait * 1000);
      this.onState("lost", Date.now() + wait * 1000);
    };
  }

  retry() {
    this.onState("connecting");
    this.open(this.address);
  }

  close() {
    clearTimeout(this.again);
    clearTimeout(this.quiet);
    this.source?.close();
    this.source = null;
    this.line = [];
    this.head = 0;
  }

  arrived(kind, data) {
    this.line.push(kind, data);
    if (!this.busy) {
      this.busy = true;
      this.channel.port2.postMessage(0);
    }
  }

  slice() {
    const end = performance.now() + SLICE;
    while (this.head < this.line.length && performance.now() < end) {
      const kind = this.line[this.head++];
      const text = this.line[this.head++];
      this.heard = true;
      this.onEvent(kind, JSON.parse(text));
      if (kind === "ready") this.finished();
    }
    if (this.head < this.line.length) return this.channel.port2.postMessage(0);
    this.line = [];
    this.head = 0;
    this.busy = false;
    if (!this.complete && this.heard) {
      clearTimeout(this.quiet);
      this.quiet = setTimeout(() => this.finished(), QUIET);
    }
  }

  finished() {
    if (this.complete) return;
    this.complete = true;
    clearTimeout(this.quiet);
    this.onWhole();
  }
}
