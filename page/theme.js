// The colour theme: light, dark or that of the system. `data-theme` of the root element is always "light" or "dark".

import { useEffect, useState } from "./lib.js";

const kStored = "weightfs.theme";
const kThemes = ["auto", "light", "dark"];
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

// Storage can be switched off in a browser; the choice is then lost with the page.
function stored() {
  try {
    return localStorage.getItem(kStored);
  } catch {
    return null;
  }
}

let choice = kThemes.includes(stored()) ? stored() : "auto";

// The theme that is shown: "light" or "dark".
function shownTheme() {
  if (choice !== "auto") return choice;
  return system.matches ? "dark" : "light";
}

function apply() {
  document.documentElement.dataset.theme = shownTheme();
  for (const listener of listeners) listener();
}

system.addEventListener("change", apply);
apply();

// What the user chose: "auto", "light" or "dark".
export const chosenTheme = () => choice;

// The theme after this one, in the order of the button.
export const themeAfter = (theme) => kThemes[(kThemes.indexOf(theme) + 1) % kThemes.length];

export function chooseTheme(theme) {
  choice = theme;
  try {
    localStorage.setItem(kStored, theme);
  } catch {
    // Storage is switched off.
  }
  apply();
}

// The theme that is shown, for what draws on a canvas; the component is rendered again when it changes.
export function useTheme() {
  const [theme, setTheme] = useState(shownTheme);
  useEffect(() => {
    const update = () => setTheme(shownTheme());
    listeners.add(update);
    return () => listeners.delete(update);
  }, []);
  return theme;
}
