// Times, lengths, numbers and money as text.

const NBSP = "\u00a0";
export const NONE = "–";
const number = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const count = (value) => (value === null || value === undefined ? NONE : number.format(value));
export const plural = (value, one, many = one + "s") => count(value) + NBSP + (value === 1 ? one : many);
export const share = (part, whole) => (whole ? Math.round((100 * part) / whole) + NBSP + "%" : NONE);

export function length(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return NONE;
  const value = Math.max(0, seconds);
  if (value === 0) return "0" + NBSP + "s";
  if (value < 0.1) return Math.round(value * 1000) + NBSP + "ms";
  if (value < 1) return value.toFixed(2) + NBSP + "s";
  if (value < 10 && value % 1) return value.toFixed(1) + NBSP + "s";
  if (value < 60) return Math.floor(value) + NBSP + "s";
  const two = (x) => String(x).padStart(2, "0");
  const whole = Math.floor(value);
  if (whole < 3600) return Math.floor(whole / 60) + "m" + NBSP + two(whole % 60) + "s";
  if (whole < 86400) return Math.floor(whole / 3600) + "h" + NBSP + two(Math.floor((whole % 3600) / 60)) + "m";
  return Math.floor(whole / 86400) + "d" + NBSP + Math.floor((whole % 86400) / 3600) + "h";
}

/** A length in its largest unit, as lists show it. */
export function rough(seconds) {
  const value = Math.max(0, Math.floor(seconds));
  if (value < 60) return value + NBSP + "s";
  if (value < 3600) return Math.floor(value / 60) + NBSP + "min";
  if (value < 86400) return Math.floor(value / 3600) + NBSP + "h";
  return Math.floor(value / 86400) + NBSP + "d";
}

export const ago = (at, now) => (at ? rough((now - ms(at)) / 1000) + " ago" : NONE);
export const until = (at, now) => {
  if (!at) return NONE;
  const left = (ms(at) - now) / 1000;
  return left >= 0 ? rough(left) : rough(-left) + " over";
};
export const since = (at, now) => (at ? Math.max(0, (now - ms(at)) / 1000) : null);
export const ms = (at) => (typeof at === "number" ? at : Date.parse(at));

/** The time of day in UTC, with the date when it is another day. */
export function time(at, now = Date.now()) {
  if (!at) return NONE;
  const iso = new Date(ms(at)).toISOString();
  const day = iso.slice(0, 10);
  return (day === new Date(now).toISOString().slice(0, 10) ? "" : day + " ") + iso.slice(11, 19);
}
export const minute = (at) => new Date(ms(at)).toISOString().slice(11, 16);

export function money(value, digits = 2) {
  if (value === null || value === undefined || value === "") return NONE;
  const parsed = Number(value);
  if (!Number.isFinite(parsed)) return NONE;
  const shown = parsed > 0 && parsed < 0.01 && digits === 2 ? parsed.toPrecision(2) : parsed.toFixed(digits);
  return "$" + shown.replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ",");
}

/** The first eight digits of a long id; names that people gave stay whole. */
export const short = (id) => id.replace(/^((?:i|p|local|j|op)-[0-9a-f]{8})[0-9a-f]+$/, "$1");
export const memory = (mib) => (mib % 1024 ? mib + NBSP + "MiB" : mib / 1024 + NBSP + "GiB");
export const capital = (text) => (text ? text[0].toUpperCase() + text.slice(1) : text);
