// The frame: side bar with its badges, top bar, the sign of the connection, and banners.

import { now, server } from "./api.js";
import { menu } from "./dialogs.js";
import { glyph, h, icon, paint, setText } from "./dom.js";
import { count, length, time } from "./format.js";
import { PLACES, TABS } from "./places.js";
import { address } from "./router.js";
import { session } from "./session.js";
import { instances, news, operations, runs, silent } from "./store.js";

export const connection = { state: "connecting", nextTry: 0, lostAt: 0, why: "", ended: false };
export const shared = { status: null, waits: null, pauses: null }; // what the frame and several pages show
const $ = (id) => document.getElementById(id);

export function drawFrame(place, id, actions) {
  paint($("places"), PLACES.map((one) => h("li", { key: one.page },
    h("a", { class: "place", href: address(one.page), "aria-current": one.page === place?.page ? "page" : null }, icon(one.page), h("span", null, one.name), badge(one.page)))));
  const more = !TABS.includes(place?.page);
  paint($("tabs"), PLACES.filter((one) => TABS.includes(one.page)).map((one) =>
    h("a", { class: "tab", key: one.page, href: address(one.page), "aria-current": one.page === place?.page ? "page" : null }, icon(one.page), one.name)),
    h("button", { type: "button", class: "tab", key: "more", "aria-current": more ? "page" : null, on: { click: () => openMenu(actions) } }, icon("more"), "More"));
  const name = place ? place.name : "Unknown page";
  paint($("crumbs"), id ? [h("a", { href: address(place.page === "subject" ? "pools" : place.page) }, place.page === "subject" ? "Pools" : name), h("span", { class: "quiet" }, "/"), h("h1", { class: "cut" }, h("span", { class: "mono" }, id))] : h("h1", null, name));
  const title = (id || name) + " · Bullpen";
  if (document.title !== title) document.title = title;
  paint($("foot"), server.version ? h("p", null, "serve " + server.version) : null, h("p", null, location.host),
    session.name ? h("p", null, session.open ? "open: no tokens exist" : `token ${session.name}, ${session.scope}`) : null);
  $("leave").hidden = session.open || !session.name;
}

function openMenu(actions) {
  const places = PLACES.filter((one) => !TABS.includes(one.page)).map((one) => ({ icon: one.page, name: one.name, href: address(one.page) }));
  const others = [{ icon: "theme", name: "Theme", run: actions.theme }, { icon: "help", name: "Keyboard", run: actions.help }];
  if (session.name && !session.open) others.push({ icon: "leave", name: "Sign out", run: actions.leave });
  menu([...places, ...others]);
}

function badge(page) {
  if (page === "instances") return plain(instances.size);
  if (page === "runs") return plain(runs.size);
  if (page === "workers" && silent.size) return serious("lost", "lost", silent.size, "silent");
  const waiting = shared.waits?.length ?? shared.status?.waiting.length;
  if (page === "queue" && waiting) return serious("warn", "suspect", waiting, "waiting");
  const failing = shared.status?.failingLoops.length;
  if (page === "control" && failing) return serious("warn", "suspect", failing, "failing");
  return null;
}

const plain = (value) => (news.whole ? h("span", { class: "badge plain" }, count(value)) : null);
const serious = (tone, drawing, value, word) =>
  h("span", { class: "badge " + tone }, glyph(drawing, tone), value > 99 ? "99+" : count(value), h("span", { class: "unseen" }, " " + word));

/** The sign and the banner. Called once a second, too: a lost connection says since when. */
export function drawSign(actions) {
  const { state, ended } = connection;
  const sign = $("sign");
  const word = ended ? "Signed out" : state === "live" ? "Live" : state === "lost" ? "Not live" : "Connecting";
  if (sign.lastChild?.data !== word) paint(sign, glyph(state === "live" && !ended ? "running" : state === "lost" || ended ? "suspect" : "queued", state === "live" && !ended ? "offer" : state === "lost" || ended ? "warn" : "ended"), word);
  setText($("clock"), time(now()) + " UTC");
  document.body.classList.toggle("stale", ended || state === "lost" || Boolean(news.trouble));
  paint($("banner"), banner(actions));
}

function banner(actions) {
  const seen = news.updatedAt ? h("span", null, "What you see is from ", h("b", null, time(news.updatedAt + server.ahead)), " and does not change. ") : null;
  if (connection.ended)
    return h("div", { class: "banner" }, glyph("suspect", "warn"), h("p", null, h("b", null, "Your session has ended. "), seen, "The token may have expired, or it was revoked."),
      h("button", { type: "button", class: "button", on: { click: actions.signIn } }, "Sign in"));
  if (connection.state === "lost") {
    const left = Math.ceil((connection.nextTry - Date.now()) / 1000);
    const since = length(Math.floor((Date.now() - connection.lostAt) / 1000));
    return h("div", { class: "banner" }, glyph("suspect", "warn"),
      h("p", null, h("b", null, connection.why ? `The server has refused for ${since}. ` : `Connection lost ${since} ago. `), connection.why ? connection.why + " " : null, seen, h("span", { class: "quiet" }, left > 0 ? `Trying again in ${length(left)}.` : "Trying again.")),
      h("button", { type: "button", class: "button", on: { click: actions.retry } }, "Try now"));
  }
  if (news.trouble)
    return h("div", { class: "banner" }, glyph("suspect", "warn"), h("p", null, h("b", null, "The store is in trouble. "), seen, news.trouble));
  return null;
}

/** How many provisions the server is executing now. */
export const underWay = () => [...operations.values()].filter((one) => one.state === "running").length;
