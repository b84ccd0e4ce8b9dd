// A table of any number of rows, of which only the visible ones exist. The keys move a mark through the rows; Enter opens one.

import { html, useEffect, useLayoutEffect, useMemo, useState } from "../lib.js";
import { useMedia } from "./media.js";
import { useVirtual } from "./virtual.js";

const kHeadHeight = 28;
// Rows are higher where a finger chooses them.
const kRowHeight = matchMedia("(pointer: coarse)").matches ? 36 : 24;
const kSecondLine = 20;
const rowHeightOf = (isTall) => kRowHeight + (isTall ? kSecondLine : 0);
const headHeightOf = (isTall) => kHeadHeight + (isTall ? kSecondLine : 0);
// A window in which a row has two lines: the first column has one of its own.
const kNarrow = matchMedia("(max-width: 519px)");
const kCharacterWidth = 7.3;
const kPadding = 28;
const kLeastCharacters = 12;

function HeadCell({ column, sort, onSort }) {
  const isSorted = sort.column === column.id;
  const order = isSorted ? `${sort.order}ending` : "none";
  const arrow = isSorted ? (sort.order === "asc" ? " ▲" : " ▼") : "";
  const alignment = column.isNumber ? "number" : "";
  if (!column.isSortable) return html`<span role="columnheader" class=${alignment}>${column.title}</span>`;
  return html`<span role="columnheader" aria-sort=${order} class=${alignment}>
    <button type="button" class="plain" onClick=${() => onSort(column.id)}>
      ${column.title}<span aria-hidden="true">${arrow}</span>
    </button>
  </span>`;
}

function Row({ id, row, index, columns, layout, top, space, isMarked, onChoose }) {
  const style = { top: `${top}px`, height: `${layout.rowHeight}px`, gridTemplateColumns: layout.template };
  return html`<div
    id=${id}
    role="row"
    aria-rowindex=${index + 2}
    aria-selected=${isMarked}
    class=${layout.isTall ? "grid-row tall" : "grid-row"}
    style=${style}
    onClick=${(event) => onChoose(index, event)}
  >
    ${columns.map(
      (column) => html`<span key=${column.id} role="gridcell" class=${column.isNumber ? "number" : ""}
        >${row ? column.cell(row, space) : column.isNumber ? "" : "…"}</span
      >`,
    )}
  </div>`;
}

// The row after a key, or null if the key is none of the table.
function rowAfter(key, mark, count, page) {
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }[key];
  if (step !== undefined) return Math.min(Math.max(mark + step, 0), count - 1);
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  return null;
}

const isWide = ({ width }) => width === undefined;

// The columns that are shown, and how: {columns, isTall, rowHeight, template, characters (of the wide column)}.
function layoutOf(columns, width, isTall) {
  const isShown = ({ from, isInTall }) => (isTall ? (isInTall ?? !from) : !from || width >= from);
  const all = columns.filter(isShown);
  const others = all.filter((column) => !isWide(column));
  const shown = isTall ? [...all.filter(isWide), ...others] : all;
  const fixed = isTall ? 0 : others.reduce((sum, { width: each }) => sum + each, 0);
  const tall = others.map((column) => `minmax(0, ${column.tallWidth ?? column.width}fr)`);
  const wide = shown.map((column) => (isWide(column) ? "minmax(0, 1fr)" : `${column.width}px`));
  return {
    columns: shown,
    isTall,
    rowHeight: rowHeightOf(isTall),
    template: (isTall ? tall : wide).join(" "),
    characters: Math.max(kLeastCharacters, Math.floor((width - fixed - kPadding) / kCharacterWidth)),
  };
}

// `columns`: [{id, title, cell(row, {width, isTall, characters, texts}), isNumber, isSortable, width, from, isInTall, tallWidth,
// textsOf(rows, characters)}]; the one without a width is as wide as the rest allows (`characters`), and one with `from` is shown only
// in a table at least that wide. In a narrow window a row has two lines: the wide column, and below it those without `from`, unless
// `isInTall` says otherwise. `textsOf` of the wide column returns a Map from each visible row to what its cell() gets in `texts`. `rows`
// is that of useRows(); `mark` is the row to begin with; `sort` is {column, order}. `onOpen(row, index, event)` is called for a click
// (with its event) or Enter.
export function Table({ label, columns, rows, sort, onSort, onOpen, mark: firstMark = 0 }) {
  const count = rows.total;
  const isTall = useMedia(kNarrow);
  const { box, onScroll, width, first, last, spacer, offsetOf, show, moveTo, page, isMeasured } = useVirtual({
    count,
    rowHeight: rowHeightOf(isTall),
    headHeight: headHeightOf(isTall),
  });
  const [mark, setMark] = useState(firstMark);
  useEffect(() => rows.want(first, last), [rows.want, first, last]);
  const layout = useMemo(() => layoutOf(columns, width, isTall), [columns, width, isTall]);

  // Another list begins at its first row, except the one that was there first (the way back from a tensor).
  const [list, setList] = useState(null);
  useLayoutEffect(() => {
    if (!isMeasured || rows.list === list) return;
    const start = list === null ? firstMark : 0;
    setList(rows.list);
    setMark(start);
    moveTo(Math.max(0, (start - Math.floor(page / 2)) * layout.rowHeight));
  }, [isMeasured, rows.list]);

  const idOf = (index) => `row-${index}`;
  const isVisible = mark >= first && mark < last;

  const open = (index, event) => {
    setMark(index);
    const row = rows.rowAt(index);
    if (row) onOpen(row, index, event);
  };
  const onKeyDown = (event) => {
    if (event.target !== box.current || event.ctrlKey || event.metaKey || event.altKey || count === 0) return;
    const next = rowAfter(event.key, mark, count, page);
    if (next !== null) {
      setMark(next);
      show(next);
    } else if (event.key === "Enter") {
      open(mark);
    } else {
      return;
    }
    event.preventDefault();
  };
  // Rendered only when it shows something else: most of what happens around a table, such as a key in the search, does not change it.
  const makeRows = () => {
    const indices = Array.from({ length: Math.max(0, last - first) }, (_, place) => first + place);
    const present = indices.map(rows.rowAt).filter((row) => row !== null);
    const { characters } = layout;
    const space = { width, isTall, characters, texts: columns.find(isWide).textsOf?.(present, characters) };
    return indices.map(
      (index) => html`<${Row}
        key=${index}
        id=${idOf(index)}
        row=${rows.rowAt(index)}
        index=${index}
        columns=${layout.columns}
        layout=${layout}
        top=${offsetOf(index)}
        space=${space}
        isMarked=${index === mark}
        onChoose=${open}
      />`,
    );
  };
  const shownRows = useMemo(makeRows, [rows.list, rows.version, first, last, mark, layout, spacer, offsetOf(first)]);
  return html`<div
    ref=${box}
    class=${isTall ? "grid tall" : "grid"}
    role="grid"
    tabindex="0"
    aria-label=${label}
    aria-rowcount=${count + 1}
    aria-activedescendant=${isVisible ? idOf(mark) : undefined}
    onScroll=${onScroll}
    onKeyDown=${onKeyDown}
  >
    <div role="rowgroup" class="grid-head">
      <div
        role="row"
        aria-rowindex="1"
        class="grid-row"
        style=${{ gridTemplateColumns: layout.template, height: `${headHeightOf(isTall)}px` }}
      >
        ${layout.columns.map((column) => html`<${HeadCell} key=${column.id} column=${column} sort=${sort} onSort=${onSort} />`)}
      </div>
    </div>
    <div role="rowgroup" class="grid-body" style=${{ height: `${spacer}px` }}>
      ${shownRows}
    </div>
  </div>`;
}
