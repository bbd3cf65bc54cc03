// Builds nodes, and brings what is on the page to what should be there. Text is only ever set as text, so that whatever
// a run, a label or a log line contains is shown and never interpreted.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `attributes` may have `class`, `on` (handlers by event), `style` (custom or plain properties), `key`. */
export function h(tag, attributes, ...children) {
  return made(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) node["on" + event] = handler;
    else if (name === "style") for (const [property, worth] of Object.entries(value)) node.style.setProperty(property, worth);
    else if (name === "key") node.key = value;
    else if (name === "value" || name === "open") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(node, child);
    else if (child !== null && child !== undefined && child !== false) node.append(child);
  }
}

/** A place in a description for a node that keeps itself up to date, such as a long list. */
export function slot(node) {
  const place = document.createElement("i");
  place.kept = node;
  return place;
}

const HANDLERS = ["onclick", "oninput", "onchange", "onkeydown", "onsubmit", "ontoggle", "onpointermove", "onpointerleave"];

/** Make the children of `node` equal to `wanted`, and keep every node that can be kept: focus, choice and scrolling stay. */
export function paint(node, ...wanted) {
  const holder = document.createDocumentFragment();
  add(holder, wanted);
  morphChildren(node, holder);
}

function morphChildren(node, wanted) {
  const keyed = new Map();
  for (const child of node.childNodes) if (child.key !== undefined) keyed.set(child.key, child);
  let at = node.firstChild;
  let next = wanted.firstChild;
  while (next) {
    const after = next.nextSibling;
    const want = next.kept || next;
    if (want.key !== undefined && keyed.has(want.key) && keyed.get(want.key) !== at) {
      node.insertBefore(keyed.get(want.key), at);
      at = keyed.get(want.key);
    }
    if (at === want) at = at.nextSibling;
    else if (at && !next.kept && alike(at, want)) {
      morph(at, want);
      at = at.nextSibling;
    } else if (at && (next.kept || (want.key !== undefined && at.key !== undefined) || !laterAlike(at, want))) {
      node.insertBefore(want, at);
    } else if (at) {
      const gone = at;
      node.insertBefore(want, at);
      at = at.nextSibling;
      gone.remove();
    } else node.append(want);
    next = after;
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function laterAlike(at, want) {
  return at.key === undefined && want.key === undefined;
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.key === b.key && !a.holdsItself;
}

function morph(node, wanted) {
  if (node.nodeType === Node.TEXT_NODE) {
    if (node.data !== wanted.data) node.data = wanted.data;
    return;
  }
  if (node.nodeName === "CANVAS") {
    for (const { name, value } of wanted.attributes) node.setAttribute(name, value); // its size is its own
    return;
  }
  for (const { name } of [...node.attributes])
    if (!wanted.hasAttribute(name) && !(name === "open" && node.nodeName !== "DIALOG")) node.removeAttribute(name);
  for (const { name, value } of [...wanted.attributes]) {
    if (name === "style") {
      if (node.style.cssText !== wanted.style.cssText) node.style.cssText = wanted.style.cssText;
    } else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  for (const handler of HANDLERS) if (node[handler] !== wanted[handler]) node[handler] = wanted[handler];
  if (node.nodeName === "INPUT" || node.nodeName === "TEXTAREA" || node.nodeName === "SELECT") return; // its own text stays
  morphChildren(node, wanted);
}

export function setText(node, text) {
  if (node.firstChild && node.firstChild === node.lastChild && node.firstChild.nodeType === Node.TEXT_NODE) {
    if (node.firstChild.data !== text) node.firstChild.data = text;
  } else node.textContent = text;
}

export function setClass(node, name) {
  if (node.className !== name) node.className = name;
}

/** A drawing of 12 px that stands beside a word. */
export function glyph(name, tone = name) {
  return s("svg", { class: "glyph tone-" + tone, viewBox: "0 0 12 12", "aria-hidden": "true" }, s("use", { href: "#g-" + name }));
}

export function icon(name, extra = "") {
  return s("svg", { class: "icon " + extra, viewBox: "0 0 16 16", "aria-hidden": "true" }, s("use", { href: "#i-" + name }));
}
