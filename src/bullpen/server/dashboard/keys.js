// The keyboard: letters act on the page unless a field is being typed in.

import { isOpen } from "./dialogs.js";
import { PLACES } from "./places.js";
import { go, read } from "./router.js";

const GO_LASTS = 1500; // milliseconds that `g` waits for the letter of a page
const LINKS = "main a.id, main summary, main .list-row a, main tr a";

export function setUp({ theme, help, page }) {
  let went = -Infinity;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isOpen()) return;
    if (event.target.matches("input, textarea, select")) {
      if (event.key === "Escape" && event.target.id === "filter") event.target.blur();
      return;
    }
    const act = action(event, performance.now() - went < GO_LASTS);
    went = event.key === "g" ? performance.now() : -Infinity;
    if (!act) return;
    event.preventDefault();
    act();
  });

  function action(event, going) {
    const place = going && PLACES.find((one) => one.key === event.key);
    if (place) return () => go(place.page);
    switch (event.key) {
      case "/": return () => focusFind();
      case "?": return help;
      case "t": return theme;
      case "f": return field("filter");
      case "j": return () => step(1);
      case "k": return () => step(-1);
      case "Enter": {
        const list = page()?.list;
        return list?.chosen && document.activeElement?.closest("a, button, summary, [role=grid]") === null ? () => list.open(list.chosen) : null;
      }
      case "Escape": return read().id ? () => go(read().page === "subject" ? "pools" : read().page) : null;
      default: return null;
    }
  }

  function step(by) {
    const list = page()?.list;
    if (list) {
      list.scroller.focus({ preventScroll: true });
      return list.step(by);
    }
    const links = [...document.querySelectorAll(LINKS)];
    const from = links.indexOf(document.activeElement);
    links[Math.max(0, Math.min(links.length - 1, from < 0 ? 0 : from + by))]?.focus();
  }
}

export function focusFind() {
  document.body.classList.add("finding");
  document.getElementById("find").focus();
}

function field(id) {
  const found = document.getElementById(id);
  return found ? () => found.focus() : null;
}
