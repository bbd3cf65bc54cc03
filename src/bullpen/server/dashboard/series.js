// The last half hour by class and minute, as the charts need it.

/** Reads a resource of `GET /v1/series`; without an answer everything is empty. */
export class Series {
  constructor(resource) {
    this.resource = resource;
  }

  get ready() {
    return Boolean(this.resource.answer);
  }

  get price() {
    return this.resource.answer?.pricePerHour ?? null;
  }

  of() {
    return { selected: 0, created: 0, coldStarts: 0, onOffer: [] };
  }
}
