// Who looks at the page: the exchange of a token for a session, and the end of it.

import { ask } from "./api.js";
import { h, paint } from "./dom.js";
import { capital } from "./format.js";
import { command } from "./parts.js";

export const session = { name: "", scope: "", expiresAt: null, open: false };
const RANK = { read: 1, operate: 2, admin: 3 };

export const may = (scope) => (RANK[session.scope] || 0) >= RANK[scope];

/** Whether there is one. An open server has no tokens, and needs no session. */
export async function find() {
  try {
    const found = await ask("/v1/session");
    Object.assign(session, found, { open: found.name === "open" });
    return true;
  } catch (error) {
    if (error.status === 401 || error.status === 403) return false;
    if (error.unavailable) return Boolean(Object.assign(session, { name: "open", scope: "read", open: true })); // an older server
    throw error;
  }
}

/** Log out. An error says that the session may still be valid somewhere. */
export async function leave() {
  await ask("/v1/session", { method: "DELETE" });
  Object.assign(session, { name: "", scope: "", expiresAt: null });
}

/** The form in which a token is entered; `entered` is called once the session began. */
export function signIn(entered, why = "") {
  const host = document.createElement("main");
  host.className = "sign-in";
  host.tabIndex = -1;
  let trouble = why;
  let busy = false;
  const send = async (event) => {
    event.preventDefault();
    const field = host.querySelector("input");
    if (!field.value.trim() || busy) return;
    busy = true;
    trouble = "";
    draw();
    try {
      Object.assign(session, await ask("/v1/session", { method: "POST", body: { token: field.value.trim() } }));
      field.value = "";
      entered();
      return;
    } catch (error) {
      trouble = capital(error.message) + "." + (error.remedy ? " " + error.remedy : "");
    }
    busy = false;
    draw();
    field.focus();
  };
  const draw = () => paint(host, h("form", { on: { submit: send } },
    h("h1", null, "Sign in to Bullpen"),
    h("p", { class: "second" }, "Enter a token of this pool. The server exchanges it for a session, which ends with the token."),
    h("label", { for: "token" }, "Token"),
    h("input", { class: "field", id: "token", type: "password", autocomplete: "off", spellcheck: "false", placeholder: "bpo_…", "aria-describedby": "token-error" }),
    h("p", { class: "error", id: "token-error", role: "alert" }, trouble),
    h("button", { type: "submit", class: "button first", disabled: busy }, busy ? "Signing in" : "Sign in"),
    h("p", { class: "quiet" }, "No token yet? On a machine with the pool's store:"),
    command("bullpen token create --scope read --name dashboard")));
  draw();
  return host;
}
