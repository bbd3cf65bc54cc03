// The beginning: who looks, the event stream, and the page that the address names.

import * as api from "./api.js";
import * as dialogs from "./dialogs.js";
import { h, paint } from "./dom.js";
import * as find from "./find.js";
import { capital } from "./format.js";
import * as keys from "./keys.js";
import { bones } from "./parts.js";
import { placeOf, PLACES } from "./places.js";
import { pause, Resource } from "./resource.js";
import { read } from "./router.js";
import * as session from "./session.js";
import { connection, drawFrame, drawSign, shared } from "./shell.js";
import * as store from "./store.js";
import { Stream } from "./stream.js";
import * as themes from "./themes.js";

const REDRAW_EVERY = 250; // milliseconds: what is not a long list is drawn this often at most
const STATUS_EVERY = 5; // seconds
const SELDOM = 15; // seconds
const RESTS_AFTER = 20000; // milliseconds out of sight
const scrolled = new Map(); // address → how far its page was scrolled

const $ = (id) => document.getElementById(id);
let page = null; // the open one: { draw, tick, close, list, resources }
let here = "";
let watched = [];
let drawing = 0;
let drawnAt = 0;
let troubled = "";
let resting = 0;

const stream = new Stream({
  event: (kind, data) => (kind === "pauses" ? (shared.pauses = data.pauses) : store.take(kind, data)),
  whole: () => {
    store.whole();
    draw();
  },
  state: (state, nextTry) => {
    if (state === "lost" && connection.state !== "lost") connection.lostAt = Date.now();
    Object.assign(connection, { state, nextTry: nextTry || 0 });
    pause(state === "lost");
    if (state === "live") {
      connection.why = "";
      store.begin();
    }
    if (state === "lost") checkSession();
    sign();
  },
});

const actions = { theme: themes.next, help: () => dialogs.help(PLACES), leave, signIn: () => showSignIn(), retry: () => stream.retry() };

function route() {
  if (here) scrolled.set(here, $("main").scrollTop);
  const { page: name, id, query } = read();
  const place = placeOf(name);
  const back = history.state?.seen === true;
  history.replaceState({ seen: true }, "");
  here = location.hash;
  page?.close?.();
  for (const one of page?.resources || []) one.close();
  const resources = [];
  const context = {
    id,
    query,
    redraw,
    now: api.now,
    resource(path, every = 0) {
      const one = new Resource(path, every, redraw);
      resources.push(one);
      return one;
    },
  };
  $("main").className = "";
  $("main").replaceChildren();
  if (place) page = (id && place.one ? place.one : place.open)(context);
  else page = { draw: () => h("p", null, "There is no such page. ", h("a", { class: "link", href: "#/pools" }, "Go to Pools")) };
  page.resources = resources;
  page.place = place;
  page.id = id;
  $("main").classList.toggle("whole", Boolean(page.list));
  draw();
  if (back && scrolled.has(here)) $("main").scrollTop = scrolled.get(here);
  else $("main").scrollTop = 0;
}

/** A page that is not looked at gives its connection back: a browser has six for a server, and each open stream takes
    one, so that the seventh page would wait for ever. */
function seen() {
  clearTimeout(resting);
  if (!page || connection.ended) return;
  if (document.hidden) resting = setTimeout(() => stream.close(), RESTS_AFTER);
  else if (!stream.stop) stream.retry();
}

function redraw() {
  if (drawing) return;
  drawing = setTimeout(draw, Math.max(0, REDRAW_EVERY - (performance.now() - drawnAt)));
}

function draw() {
  clearTimeout(drawing);
  drawing = 0;
  drawnAt = performance.now();
  if (!page) return;
  const id = page.place && page.id;
  drawFrame(page.place, id, actions);
  paint($("main"), store.news.whole || page.early ? page.draw() : bones());
  dialogs.redraw();
}

function sign() {
  drawSign(actions);
}

function second() {
  if (document.hidden || !page) return;
  stream.check();
  sign();
  if (connection.state === "live" && !connection.ended) {
    page.list?.tick();
    redraw();
  }
}

async function checkSession() {
  try {
    if (!(await session.find())) ended();
  } catch {
    // the server does not answer: the stream tries again
  }
}

function ended() {
  if (connection.ended || !page) return;
  connection.ended = true;
  stream.close();
  pause(true);
  sign();
}

async function leave() {
  try {
    await session.leave();
  } catch (error) {
    return dialogs.say(error.lost ? "You are still signed in" : "You are signed out of this browser only", capital(error.message) + ". " + error.remedy);
  }
  stream.close();
  location.reload();
}

function showSignIn(why) {
  const form = session.signIn(() => {
    form.remove();
    $("frame").hidden = false;
    connection.ended = false;
    begin();
  }, why);
  $("frame").hidden = true;
  document.body.append(form);
  form.querySelector("input").focus();
}

function begin() {
  if (!watched.length) {
    store.watch(() => {
      if (connection.ended) return;
      page?.list?.refresh();
      if (store.news.trouble !== troubled) {
        troubled = store.news.trouble;
        sign();
      }
      redraw();
    });
    addEventListener("hashchange", route);
    setInterval(second, 1000);
    keepAsking("/v1/status", STATUS_EVERY, (answer) => {
      shared.status = answer;
      store.takeSilent(answer.silentWorkers);
    });
    keepAsking("/v1/queue", SELDOM, (answer) => (shared.waits = answer.waits));
    keepAsking("/v1/pauses", 0, (answer) => (shared.pauses = answer.pauses));
  }
  pause(false);
  stream.open();
  if (page) draw();
  else route();
}

function keepAsking(path, every, took) {
  const one = new Resource(path, every, () => {
    if (one.answer) took(one.answer);
    redraw();
  });
  watched.push(one);
}

async function start() {
  themes.setUp();
  dialogs.setUp();
  find.setUp();
  keys.setUp({ theme: themes.next, help: actions.help, page: () => page });
  api.listen({ unauthenticated: checkSession });
  document.addEventListener("visibilitychange", seen);
  addEventListener("offline", () => stream.lost());
  addEventListener("online", () => connection.state === "lost" && page && !connection.ended && stream.retry());
  $("theme").addEventListener("click", themes.next);
  $("help").addEventListener("click", actions.help);
  $("leave").addEventListener("click", leave);
  $("skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("main").focus();
  });
  for (let wait = 1; ; wait = Math.min(10, wait * 2)) {
    try {
      if (await session.find()) return begin();
      return showSignIn();
    } catch (error) {
      if (!error.lost && error.status !== 503) return paint($("main"), h("p", { class: "error" }, error.message || String(error)));
      connection.lostAt ||= Date.now();
      Object.assign(connection, { state: "lost", nextTry: Date.now() + wait * 1000, why: error.lost ? "" : capital(error.message) + "." });
      drawSign({ ...actions, retry: () => location.reload() });
      await new Promise((done) => setTimeout(done, wait * 1000));
    }
  }
}

start();
