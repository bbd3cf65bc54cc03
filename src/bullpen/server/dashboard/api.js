// Requests to the server that sent this page, and what went wrong with them.

export class ApiError extends Error {
  constructor(status, answer) {
    super(answer.error || "the server answered " + status);
    this.status = status;
    this.code = answer.code || "";
    this.field = answer.field || "";
    this.remedy = answer.remedy || "";
    this.lost = status === 0;
    // An older server, or one of another version, does not have the endpoint.
    this.unavailable = status === 404 && this.code === "no-such-endpoint";
    this.missing = status === 404 && !this.unavailable;
  }
}

const listeners = { unauthenticated: () => {} };
export const server = { version: "", ahead: 0 }; // milliseconds that its clock is ahead of this browser's

export function listen(handlers) {
  Object.assign(listeners, handlers);
}

/** The time at the server, in milliseconds. */
export const now = () => Date.now() + server.ahead;

export async function ask(path, { method = "GET", body, signal, key } = {}) {
  const response = await reach(path, method, body, signal, key);
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    answer = { error: text.slice(0, 300) };
  }
  if (response.ok) return answer;
  if (response.status === 401 && path !== "/v1/session") listeners.unauthenticated();
  throw new ApiError(response.status, answer || {});
}

export async function askBytes(path) {
  const response = await reach(path, "GET");
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
  return new Uint8Array(await response.arrayBuffer());
}

async function reach(path, method, body, signal, key) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers["idempotency-key"] = key;
  const sent = { method, headers, signal, cache: "no-store", credentials: "same-origin" };
  if (body !== undefined) sent.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, sent);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { error: "the server does not answer" });
  }
  server.version = response.headers.get("bullpen-version") || server.version;
  const date = Date.parse(response.headers.get("date") || "");
  if (date && Math.abs(date - Date.now()) > 2000) server.ahead = date - Date.now();
  return response;
}

export const at = (strings, ...values) => strings.reduce((path, part, n) => path + encodeURIComponent(values[n - 1]) + part);
