// What the table of tensors is limited to: the search for names, the part of the tree, a type, and a layer.

import { html, useEffect, useRef, useState } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatCount, shorten } from "../format.js";
import { useKeys } from "../keys.js";
import { go } from "../state.js";
import { useLoad } from "./load.js";

const kDebounce = 40;

// The field of the search. A key is searched at once, unless it follows another within 40 ms, as those of a key that is held do.
export function Search({ query }) {
  const field = useRef(null);
  const timer = useRef(null);
  const [text, setText] = useState(query);
  const sent = useRef([]); // queries on their way to the URL, in order: on a slow machine a key may follow before one is there
  const lastKey = useRef(0);
  const send = (value) => {
    if (sent.current.length > 0 || value !== query) sent.current.push(value);
    go({ q: value, row: null }, { replace: true });
  };
  // A query that was not sent here is one of the back button.
  useEffect(() => {
    const at = sent.current.indexOf(query);
    if (at < 0) setText(query);
    sent.current = at < 0 ? [] : sent.current.slice(at + 1);
  }, [query]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (event) => {
    const { value } = event.target;
    setText(value);
    clearTimeout(timer.current);
    const pause = performance.now() - lastKey.current;
    lastKey.current += pause;
    if (pause > kDebounce) send(value);
    else timer.current = setTimeout(() => send(value), kDebounce);
  };
  const clear = () => {
    clearTimeout(timer.current);
    setText("");
    send("");
  };
  useKeys({
    "/": () => field.current.select(),
    Escape: () => (text === "" ? field.current.blur() : clear()),
  });
  return html`<input
    ref=${field}
    class="grow"
    type="search"
    placeholder="Search names ( / )"
    aria-label="Search names"
    autocomplete="off"
    spellcheck=${false}
    value=${text}
    onInput=${type}
  />`;
}

// What the table is limited to, with a button that ends it.
export function Under({ under }) {
  if (!under) return null;
  return html`<button
    type="button"
    aria-pressed="true"
    title=${`Only names that begin with ${clean(under)}; show all`}
    onClick=${() => go({ under: null, row: null })}
  >
    ${shorten(under, 32)} ✕
  </button>`;
}

// A choice among groups of tensors; none if all tensors are in one. A group of the URL that the model does not have can be left.
function Choice({ label, all, parameter, chosen, groups }) {
  const isListed = groups.some(({ name }) => name === chosen);
  if (groups.length < 2 && (!chosen || isListed)) return null;
  const choose = (event) => go({ [parameter]: event.target.value || null, row: null });
  return html`<select aria-label=${label} title=${label} value=${chosen} onChange=${choose}>
    <option value="">${all}</option>
    ${chosen && !isListed && html`<option value=${chosen}>${shorten(chosen, 40)}</option>`}
    ${groups.map(({ name, tensors }) => html`<option key=${name} value=${name}>${shorten(name, 40)} (${formatCount(tensors)})</option>`)}
  </select>`;
}

// Selects for the type and the layer.
export function GroupChoices({ model, dtype, layer }) {
  const { value } = useLoad((signal) => getJson("groups", { model: model.path, v: model.v }, signal), [model.path, model.v]);
  if (!value) return null;
  return html`<${Choice} label="Type" all="all types" parameter="dtype" chosen=${dtype} groups=${value.dtypes} />
    <${Choice} label="Layer" all="all layers" parameter="layer" chosen=${layer} groups=${value.layers} />`;
}
