// JSON as a folding tree. Children are read and drawn when their parent is opened, 500 at a time.

import { html, useCallback, useEffect, useRef, useState } from "../lib.js";
import { isAborted } from "../api.js";
import { clean, formatCount, shorten } from "../format.js";
import { scanChildren, textOf } from "./json_scan.js";
import { Failure } from "./load.js";

const kMostChildren = 500;
export const kMostText = 400;
// A text up to this length opens unfolded to this depth; of a longer one only the first level is shown.
const kShort = 4000;
const kOpenDepth = 3;

function countText({ kind, count }) {
  if (count === 0) return kind === "object" ? "{}" : "[]";
  const noun = kind === "object" ? "key" : "item";
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

// A scalar as it is shown.
export const writtenOf = (text, node) => (node.kind === "text" ? `"${textOf(text, node)}"` : textOf(text, node));

function Value({ text, node }) {
  const written = writtenOf(text, node);
  return html`<span class=${`json-${node.kind}`} title=${written.length > kMostText ? "shortened; all of it is in the text" : undefined}
    >${shorten(written, kMostText)}</span
  >`;
}

// The key of an object or the index in a list; the whole text has none.
function Key({ name }) {
  if (name === undefined) return null;
  if (typeof name === "number") return html`<span class="json-index">${name}</span>: `;
  return html`<span class="json-key">${shorten(name, 120)}</span>: `;
}

function Child({ text, node, depth }) {
  const isContainer = (node.kind === "object" || node.kind === "list") && node.count > 0;
  if (isContainer) return html`<li><${Container} text=${text} node=${node} depth=${depth} /></li>`;
  return html`<li class="json-leaf">
    <${Key} name=${node.key} />${node.count === 0 ? countText(node) : html`<${Value} text=${text} node=${node} />`}
  </li>`;
}

// The children of a container as far as they were read, and `more()` that reads the next 500.
function useChildren(text, node, isOpen) {
  const [state, setState] = useState({ children: [], next: null, isBusy: false, error: null });
  const latest = useRef(state);
  latest.current = state;
  const aborter = useRef(null);
  const more = useCallback(async () => {
    aborter.current?.abort();
    const { signal } = (aborter.current = new AbortController());
    const { next: from, children: present } = latest.current;
    const change = (part) => signal.aborted || setState((last) => ({ ...last, ...part(last) }));
    change(() => ({ isBusy: true }));
    try {
      const onBatch = (batch) => change((last) => ({ children: [...last.children, ...batch] }));
      const next = await scanChildren(text, node, { from, index: present.length, limit: kMostChildren, onBatch, signal });
      change(() => ({ next, isBusy: false }));
    } catch (error) {
      if (!isAborted(error)) change(() => ({ error, next: null, isBusy: false }));
    }
  }, [text, node]);
  useEffect(() => {
    if (isOpen && latest.current.children.length === 0) more();
  }, [isOpen, more]);
  useEffect(() => () => aborter.current?.abort(), []);
  return { ...state, more };
}

function Container({ text, node, depth = 0 }) {
  const [isOpen, setIsOpen] = useState(depth < (text.length <= kShort ? kOpenDepth : 1));
  const { children, next, isBusy, error, more } = useChildren(text, node, isOpen);
  const label = node.key === undefined ? "everything" : clean(String(node.key));
  return html`<details open=${isOpen} onToggle=${(event) => event.target === event.currentTarget && setIsOpen(event.target.open)}>
    <summary><${Key} name=${node.key} /><span class="muted">${countText(node)}</span></summary>
    ${
      isOpen &&
      html`<ul class="json-children">
      ${children.map((child) => html`<${Child} key=${child.start} text=${text} node=${child} depth=${depth + 1} />`)}
    </ul>`
    }
    ${
      isOpen &&
      next !== null &&
      html`<button type="button" disabled=${isBusy} aria-label=${`Show more of ${shorten(label, 40)}`} onClick=${more}>
      Show more (${formatCount(children.length)} of ${formatCount(node.count)})
    </button>`
    }
    ${error && html`<${Failure} error=${error} />`}
  </details>`;
}

// `root` is the result of scanRoot(text).
export function JsonTree({ text, root }) {
  const isContainer = (root.kind === "object" || root.kind === "list") && root.count > 0;
  return html`<div class="json" role="region" aria-label="JSON tree">
    ${isContainer ? html`<${Container} text=${text} node=${root} />` : html`<ul><${Child} text=${text} node=${root} /></ul>`}
  </div>`;
}
