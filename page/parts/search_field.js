// A field that searches what a view lists. The browser keeps its text, so that no key is lost while the answer of another is drawn.

import { html, useEffect, useLayoutEffect, useRef } from "../lib.js";
import { useKeys } from "../keys.js";

const kPause = 80;

// `onQuery(text)` is called 80 ms after the last key, and at once by Escape, which clears the field.
export function SearchField({ label, query, onQuery }) {
  const field = useRef(null);
  const timer = useRef(null);
  useLayoutEffect(() => {
    if (document.activeElement !== field.current) field.current.value = query;
  }, [query]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const send = (text, pause) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onQuery(text), pause);
  };
  const clear = () => {
    if (field.current.value === "") field.current.blur();
    field.current.value = "";
    send("", 0);
  };
  useKeys({ "/": () => field.current.select(), Escape: clear });
  return html`<input
    ref=${field}
    class="grow"
    type="search"
    placeholder=${`${label} ( / )`}
    aria-label=${label}
    autocomplete="off"
    spellcheck=${false}
    onInput=${(event) => send(event.target.value, kPause)}
  />`;
}
