// Addresses: #/page/id?filter. Each can be sent to a colleague, and back restores page, choice and place.

export function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...rest] = path.split("/");
  let id = rest.join("/");
  try {
    id = decodeURIComponent(id);
  } catch {
    // an address that was cut in the middle of a character: shown as it is
  }
  return { page: page || "pools", id, query: new URLSearchParams(query) };
}

export const address = (page, id = "") => "#/" + page + (id ? "/" + encodeURIComponent(id) : "");

export function go(page, id) {
  location.hash = address(page, id);
}

/** Keep a filter in the address, without a step for the back button. */
export function keep(values) {
  const { page, id, query } = read();
  for (const [name, value] of Object.entries(values)) value ? query.set(name, value) : query.delete(name);
  const text = query.toString();
  history.replaceState(null, "", address(page, id) + (text ? "?" + text : ""));
}

/** The page that shows an id, by its form; what cannot be told by the form is looked up by the server. */
export function pageOf(id, kind = "") {
  if (kind === "run") return "runs";
  if (kind === "instance") return "instances";
  if (kind === "set") return "sets";
  if (!kind && /^(i-[0-9a-f]{8,}|local-[0-9a-f-]+)$/.test(id)) return "instances";
  return "subject";
}
