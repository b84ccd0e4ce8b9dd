// A folding tree of names, with the keys of a tree: arrows, Home, End, Enter. The server has already folded repeated layers.

import { html, useEffect, useRef, useState } from "../lib.js";
import { clean, formatBytes, formatCount, shorten } from "../format.js";
import { Failure, Loading } from "./load.js";
import { isFold, useTree } from "./tree_state.js";

const kMost = 40;

function labelOf(item) {
  if (item.role === "each") return `list ${clean(item.fold.entry.label)} one by one`;
  if (item.role === "fold") return "fold equal ones";
  if (item.role === "more") return "more names: search for them";
  return shorten(item.entry.label, kMost);
}

// "× 32" of a fold, else the number of tensors of a group.
function countOf({ entry, isGroup }) {
  if (isFold(entry)) return `× ${formatCount(entry.last - entry.first + 1)}`;
  return isGroup ? formatCount(entry.tensors) : "";
}

function Item({ item, isOpen, isChosen, isFocused, onToggle, onActivate }) {
  const { entry, isGroup, level, place, of } = item;
  return html`<div
    role="treeitem"
    data-id=${item.id}
    class=${`tree-item ${item.role ? "muted" : ""}`}
    style=${{ paddingInlineStart: `${4 + (level - 1) * 16}px` }}
    tabindex=${isFocused ? 0 : -1}
    aria-level=${level}
    aria-posinset=${place}
    aria-setsize=${of}
    aria-selected=${isChosen}
    aria-expanded=${isGroup ? isOpen : undefined}
    title=${entry ? clean(entry.label) : undefined}
    onClick=${() => onActivate(item)}
  >
    <span
      class="twisty"
      aria-hidden="true"
      onClick=${(event) => {
        if (!isGroup) return;
        event.stopPropagation();
        onToggle(item);
      }}
      >${isGroup ? (isOpen ? "▾" : "▸") : ""}</span
    >
    <span class="tree-label">${labelOf(item)}</span>
    ${entry && html`<span class="tree-count">${countOf(item)}</span> <span class="tree-size">${formatBytes(entry.bytes)}</span>`}
  </div>`;
}

// `load(prefix, each, signal)` resolves to {entries, truncated}; it is used again when `source` changes. `chosen` is the prefix that is
// marked, `onChoose(prefix)` and `onOpen(index)` are called for a group and for a tensor.
export function Tree({ label, load, source, chosen, onChoose, onOpen }) {
  const { items, isLoaded, isOpen, setOpen, unfold, fold, error, retry } = useTree(load, source);
  const [focusedId, setFocusedId] = useState(null);
  const isMoved = useRef(false);
  const list = useRef(null);
  const focused = items.find((item) => item.id === focusedId) ?? items.find((item) => item.id === chosen) ?? items[0];

  useEffect(() => {
    if (!isMoved.current || !focused) return;
    isMoved.current = false;
    list.current?.querySelector('[tabindex="0"]')?.focus();
  });

  const moveTo = (item) => {
    if (!item) return;
    isMoved.current = true;
    setFocusedId(item.id);
  };
  const toggle = (item) => setOpen(item.id, !isOpen(item.id));
  const activate = (item) => {
    moveTo(item);
    if (item.role === "each") unfold(item.fold);
    else if (item.role === "fold") fold(item.prefix);
    else if (item.isGroup) {
      setOpen(item.id, true);
      onChoose(item.entry.under);
    } else if (item.entry) onOpen(item.entry.leaf);
  };
  const stepRight = (item, place) => {
    if (!item.isGroup) return;
    if (!isOpen(item.id)) setOpen(item.id, true);
    else if (items[place + 1]?.parent === item) moveTo(items[place + 1]);
  };
  const stepLeft = (item) => {
    if (item.isGroup && isOpen(item.id)) setOpen(item.id, false);
    else moveTo(items.find((other) => other.id === item.parent?.id));
  };
  const onKeyDown = (event) => {
    if (!focused || event.ctrlKey || event.metaKey || event.altKey) return;
    const place = items.indexOf(focused);
    const actions = {
      ArrowDown: () => moveTo(items[place + 1]),
      ArrowUp: () => moveTo(items[place - 1]),
      ArrowRight: () => stepRight(focused, place),
      ArrowLeft: () => stepLeft(focused),
      Home: () => moveTo(items[0]),
      End: () => moveTo(items.at(-1)),
      Enter: () => activate(focused),
      " ": () => activate(focused),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  };
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (!isLoaded) return html`<${Loading} />`;
  if (items.length === 0) return html`<p class="muted">No names.</p>`;
  return html`<div ref=${list} class="tree" role="tree" aria-label=${label} onKeyDown=${onKeyDown}>
    ${items.map(
      (item) => html`<${Item}
        key=${item.id}
        item=${item}
        isOpen=${item.isGroup && isOpen(item.id)}
        isChosen=${item.isGroup && item.id === chosen}
        isFocused=${item === focused}
        onToggle=${toggle}
        onActivate=${activate}
      />`,
    )}
  </div>`;
}
