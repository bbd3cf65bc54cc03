// The last half hour by class and minute, as the charts need it.

const NOTHING = { selected: 0, created: 0, coldStarts: 0, onOffer: [] };
const MOST_LINES = 3; // in one chart

/** Reads a resource of `GET /v1/series`; without an answer everything is empty. */
export class Series {
  constructor(resource) {
    this.resource = resource;
  }

  get ready() {
    return Boolean(this.resource.answer);
  }

  get classes() {
    return this.resource.answer?.classes || [];
  }

  get times() {
    return this.classes[0]?.points.map((one) => one.at) || [];
  }

  /** Since when there is anything on offer to show, if that is within the range; else null. */
  get dataSince() {
    const answer = this.resource.answer;
    return answer?.dataSince && answer.dataSince > answer.since ? answer.dataSince : null;
  }

  /** Troubles, as shares of the time axis. */
  get marks() {
    const answer = this.resource.answer;
    const from = Date.parse(answer.since);
    const whole = Date.parse(answer.until) - from || 1;
    return answer.marks.map((one) => ({ x: (100 * (Date.parse(one.at) - from)) / whole, word: one.did + " " + one.subject }));
  }

  of(name) {
    const found = this.classes.find((one) => one.resourceClass === name);
    return found ? { ...found, onOffer: found.points.map((one) => one.onOffer) } : NOTHING;
  }

  /** The longest of the classes' values, minute by minute. */
  waits(field) {
    return this.each((points) => points.reduce((most, one) => (one[field] === null ? most : Math.max(most ?? 0, one[field])), null));
  }

  /** Of 100 runners, how many were reused; null in a minute without any. */
  reuse() {
    return this.share(["selected"], ["selected", "created"]);
  }

  /** Of 100 provisions, how many had to launch a machine; null in a minute without any. */
  coldStarts() {
    return this.share(["coldStarts"], ["provisions"]);
  }

  share(part, whole) {
    const sum = (points, fields) => points.reduce((all, one) => all + fields.reduce((these, field) => these + one[field], 0), 0);
    return this.each((points) => (sum(points, whole) ? (100 * sum(points, part)) / sum(points, whole) : null));
  }

  /** What each class has on offer; of many classes, those that have most. */
  offers(format) {
    const tones = ["offer", "running", "created"];
    const latest = (one) => one.points.at(-1)?.onOffer || 0;
    const shown = [...this.classes].sort((a, b) => latest(b) - latest(a)).slice(0, MOST_LINES);
    return this.classes.filter((one) => shown.includes(one)).map((one, n) => ({ name: one.resourceClass, tone: tones[n], values: one.points.map((point) => point.onOffer), format }));
  }

  each(value) {
    return this.times.map((_, n) => value(this.classes.map((one) => one.points[n])));
  }
}
