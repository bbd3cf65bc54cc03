// Light, dark, or as the system has it. The choice stays in this browser.

const ORDER = ["auto", "light", "dark"];

export function setUp() {
  use(stored());
}

export function next() {
  const chosen = ORDER[(ORDER.indexOf(document.documentElement.dataset.theme || "auto") + 1) % ORDER.length];
  use(chosen);
  try {
    localStorage.setItem("theme", chosen);
  } catch {
    // the browser keeps nothing: the choice lasts as long as the page
  }
}

function use(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  const name = { auto: "as the system", light: "light", dark: "dark" }[theme];
  button.setAttribute("aria-label", "Theme: " + name);
  button.title = "Theme: " + name;
}

function stored() {
  try {
    const found = localStorage.getItem("theme");
    return ORDER.includes(found) ? found : "auto";
  } catch {
    return "auto";
  }
}
