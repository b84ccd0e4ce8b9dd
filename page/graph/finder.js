// The search field of the graph: it lists nodes by operator or name.

import { html, useEffect, useState } from "../lib.js";
import { isAborted } from "../api.js";
import { formatCount, shorten } from "../format.js";

const kPatience = 120; // ms after the last key

// The nodes that `find(text)` reports, after a pause in typing.
function useFound(find, text) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    if (text.trim() === "") {
      setFound(null);
      return undefined;
    }
    let isWanted = true;
    const timer = setTimeout(() => {
      find(text)
        .then((result) => isWanted && setFound(result))
        .catch((error) => isWanted && !isAborted(error) && setFound({ total: 0, found: [], error }));
    }, kPatience);
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [find, text]);
  return found;
}

function Results({ found, onChoose }) {
  if (found === null) return null;
  const more = found.total > found.found.length ? `, the first ${found.found.length} are listed` : "";
  return html`<div class="found">
    <p class="muted" role="status">
      ${found.error ? found.error.message : `${formatCount(found.total)} ${found.total === 1 ? "node" : "nodes"}${more}`}
    </p>
    <ul>
      ${found.found.map(
        ({ node, group, op, name }) =>
          html`<li key=${node}>
            <button type="button" class="node-link" title=${shorten(name, 1000)} onClick=${() => onChoose({ node, group })}>
              ${shorten(op, 32)} <span class="name">${shorten(name, 60)}</span>
            </button>
          </li>`,
      )}
    </ul>
  </div>`;
}

// `field` is a ref that gets the input, for the key that moves the focus there.
export function Finder({ field, find, onChoose }) {
  const [text, setText] = useState("");
  const found = useFound(find, text);
  const choose = (place) => {
    setText("");
    onChoose(place);
  };
  const key = (event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      setText("");
      field.current.blur();
    }
    if (event.key === "Enter") {
      event.preventDefault();
      // The list may still be that of fewer letters.
      find(text)
        .then(({ found: [first] }) => first && choose(first))
        .catch(() => {}); // the list shows the error
    }
  };
  return html`<div class="finder" role="search">
    <input
      ref=${field}
      type="search"
      aria-label="Search nodes"
      placeholder="Search nodes (/)"
      value=${text}
      onInput=${(event) => setText(event.target.value)}
      onKeyDown=${key}
    />
    <${Results} found=${found} onChoose=${choose} />
  </div>`;
}
