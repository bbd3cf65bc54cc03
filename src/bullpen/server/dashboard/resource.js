// Something that is asked again and again while a page shows it.

import { ask } from "./api.js";

const resources = new Set();
let paused = false;

export class Resource {
  /** `every` is in seconds; 0 asks once. `changed` is called after each answer. */
  constructor(path, every, changed) {
    this.path = path;
    this.every = every;
    this.changed = changed;
    this.answer = null;
    this.error = null;
    this.answeredAt = 0;
    resources.add(this);
    this.again();
  }

  async again() {
    clearTimeout(this.timer);
    const path = this.path;
    this.stop?.abort();
    this.stop = new AbortController();
    try {
      const answer = await ask(path, { signal: this.stop.signal });
      if (path !== this.path || this.closed) return;
      this.answer = answer;
      this.error = null;
      this.answeredAt = Date.now();
    } catch (error) {
      if (error.name === "AbortError" || this.closed) return;
      this.error = error;
      if (error.missing) this.answer = null;
    }
    this.changed();
    // What the server does not have will not be there in a moment either.
    if (this.every && !this.error?.unavailable) this.timer = setTimeout(() => this.due(), this.every * 1000);
  }

  due() {
    if (paused || document.hidden) this.late = true;
    else this.again();
  }

  ask(path) {
    if (path === this.path) return;
    this.path = path;
    this.answer = null;
    this.error = null;
    this.again();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.stop?.abort();
    resources.delete(this);
  }
}

/** While the connection is lost nothing is asked; afterwards everything is asked again. */
export function pause(is) {
  const resumed = paused && !is;
  paused = is;
  if (resumed) for (const one of resources) one.again();
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  for (const one of resources)
    if (one.late) {
      one.late = false;
      one.again();
    }
});
