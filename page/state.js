// The state of the page is the query of its URL: reading it, changing it, and links that change it.

import { useEffect, useState } from "./lib.js";

const listeners = new Set();

function notify() {
  for (const listener of [...listeners]) listener();
}

// The query parameters as an object of strings; `view` is "model" unless given.
export function currentLocation() {
  return { view: "model", ...Object.fromEntries(new URLSearchParams(location.search)) };
}

// The parameters; the component is rendered again when they change.
export function useLocation() {
  const [value, setValue] = useState(currentLocation);
  useEffect(() => {
    const update = () => setValue(currentLocation());
    update();
    listeners.add(update);
    return () => listeners.delete(update);
  }, []);
  return value;
}

// The URL with `changes` (null removes a parameter). Only `model` remains of the present parameters, with `keep` all.
export function link(changes, { keep = false } = {}) {
  const present = new URLSearchParams(location.search);
  const query = keep ? present : new URLSearchParams();
  if (!keep && present.has("model")) query.set("model", present.get("model"));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  return location.pathname + (text && `?${text}`) + location.hash;
}

// The directory of a path, "" for the root of the source.
export const directoryOf = (path) => path.slice(0, Math.max(0, path.lastIndexOf("/")));

// Whether it was dropped into this page: .weightfs/dropped/NUMBER/NAME, which no list has.
export const isDropped = (path) => path.startsWith(".weightfs/");
export const kDroppedDepth = 4;

function open(href, { replace = false } = {}) {
  if (href === location.pathname + location.search + location.hash) return;
  if (replace) history.replaceState(null, "", href);
  else history.pushState(null, "", href);
  notify();
}

// Merges `changes` into the parameters and adds a history entry, or replaces the present one.
export function go(changes, options) {
  open(link(changes, { keep: true }), options);
}

// Opens a URL made by link().
export function follow(href) {
  open(href);
}

// Whether a click on a link is for the page: a plain click on a link to the page itself.
function isOwnClick(event, anchor) {
  if (event.defaultPrevented || event.button !== 0) return false;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return false;
  if (anchor.target || anchor.hasAttribute("download")) return false;
  return anchor.origin === location.origin && anchor.pathname === location.pathname;
}

// Follows links to the page itself without loading it again, and the back and forward buttons.
export function handleLinks() {
  addEventListener("popstate", notify);
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest?.("a[href]");
    if (!anchor || !isOwnClick(event, anchor)) return;
    if (anchor.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    follow(anchor.pathname + anchor.search + anchor.hash);
  });
}
