// Keys of a view: they work while a component is mounted, but not while a person types.

import { useEffect, useRef } from "./lib.js";

const kTypingTags = new Set(["INPUT", "TEXTAREA", "SELECT"]);
const kButtonTypes = new Set(["button", "checkbox", "radio", "range", "submit"]);

function isTyping(target) {
  if (target.isContentEditable) return true;
  return kTypingTags.has(target.tagName) && !kButtonTypes.has(target.type);
}

// Calls `keys[event.key](event)` for keys pressed anywhere in the page. Keys that have no function are left to the browser.
export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const listen = (event) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      const action = Object.hasOwn(latest.current, event.key) ? latest.current[event.key] : undefined;
      if (!action) return;
      // An open dialog has its own keys; Escape closes it.
      if (document.querySelector("dialog[open]")) return;
      if (event.key !== "Escape" && isTyping(event.target)) return;
      event.preventDefault();
      action(event);
    };
    document.addEventListener("keydown", listen);
    return () => document.removeEventListener("keydown", listen);
  }, []);
}
