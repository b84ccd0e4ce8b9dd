// All tensors of a model: a tree of their names, and a table that is searched and sorted by the server.

import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatBytes, formatCount, formatParameters, formatPercent, formatShape, shorten } from "../format.js";
import { useKeys } from "../keys.js";
import { Failure, Loading } from "../parts/load.js";
import { kPageRows, useRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { Tree } from "../parts/tree.js";
import { follow, go, link } from "../state.js";

const kDebounce = 40;
// The tree follows the search when a person stops typing: the server has to look at all names for it.
const kTreeDebounce = 200;
const kNarrow = matchMedia("(max-width: 799px)");

const kStateFrom = 520;

const nameCell = (row, { characters }) =>
  html`<a class="name" tabindex="-1" href=${link({ view: "tensor", t: row.index })} title=${clean(row.name)}
    >${shorten(row.name, characters)}</a
  >`;

const refused = html`<span class="refused">refused</span>`;

// In a narrow table, which has no column for the state, "refused" stands in place of the type.
const typeCell = (row, { width }) => (row.refused && width < kStateFrom ? refused : clean(row.dtype));

// How the bytes are verified when they are read; "–" if no digest of them is known.
const stateCell = (row) => (row.refused ? refused : clean(row.verification ?? "–"));

const kColumns = [
  { id: "name", title: "name", cell: nameCell, isSortable: true },
  { id: "dtype", title: "dtype", cell: typeCell, isSortable: true, width: 84 },
  { id: "shape", title: "shape", cell: (row) => formatShape(row.shape), isSortable: true, width: 168, from: 560 },
  {
    id: "parameters",
    title: "parameters",
    cell: (row) => formatParameters(row.parameters),
    isNumber: true,
    isSortable: true,
    width: 104,
    from: 680,
  },
  { id: "bytes", title: "size", cell: (row) => formatBytes(row.bytes), isNumber: true, isSortable: true, width: 84 },
  { id: "share", title: "share", cell: (row) => formatPercent(row.share), isNumber: true, width: 72, from: 640 },
  { id: "verification", title: "verified", cell: stateCell, width: 76, from: kStateFrom },
];

function useNarrow() {
  const [isNarrow, setIsNarrow] = useState(kNarrow.matches);
  useEffect(() => {
    const update = () => setIsNarrow(kNarrow.matches);
    kNarrow.addEventListener("change", update);
    return () => kNarrow.removeEventListener("change", update);
  }, []);
  return isNarrow;
}

// `value` as it was when it had not changed for `pause` milliseconds.
function useSettled(value, pause) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pause);
    return () => clearTimeout(timer);
  }, [value, pause]);
  return settled;
}

// The field of the search. A key is searched at once, unless it follows another within 40 ms, as those of a key that is held do.
function Search({ query }) {
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
function Under({ under }) {
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

function Count({ rows, model }) {
  if (!rows.isReady) return null;
  const all = formatCount(model.tensors);
  const text = rows.total === model.tensors ? `${all} tensors` : `${formatCount(rows.total)} of ${all} tensors`;
  return html`<span class="muted" role="status">${text}</span>`;
}

// The tree may have thousands of items, so it is not rendered again for each key of the search and each page of the table.
function NamesTree({ model, query: typed, under }) {
  const isNarrow = useNarrow();
  const query = useSettled(typed, kTreeDebounce);
  const makeTree = () => html`<${Tree}
    label="Names"
    load=${(prefix, each, signal) =>
      getJson("tree", { model: model.path, v: model.v, under: prefix, q: query, each: each ? 1 : null }, signal)}
    source=${query}
    chosen=${under}
    onChoose=${(prefix) => go({ under: prefix, row: null })}
    onOpen=${(index) => follow(link({ view: "tensor", t: index }))}
  />`;
  const tree = useMemo(makeTree, [model.path, model.v, query, under]);
  if (!isNarrow) return html`<section class="names" aria-label="Tree of names">${tree}</section>`;
  return html`<details class="names">
    <summary>Tree of names</summary>
    ${tree}
  </details>`;
}

export default function TensorsView({ location, model }) {
  const { q = "", under = "", sort = "index", order = "asc" } = location;
  const parameters = { model: model.path, v: model.v, q, under, sort, order, limit: kPageRows };
  const fetchPage = async (offset, signal) => {
    const { total, tensors } = await getJson("tensors", { ...parameters, offset }, signal);
    return { total, rows: tensors };
  };
  const rows = useRows(fetchPage, JSON.stringify(parameters));

  // A header sorts upwards, then downwards, then in the order of the container.
  const changeSort = (column) => {
    if (sort !== column) go({ sort: column, order: null, row: null }, { replace: true });
    else if (order === "asc") go({ order: "desc", row: null }, { replace: true });
    else go({ sort: null, order: null, row: null }, { replace: true });
  };
  // The row is kept in the history entry, so that the way back leads to it. A click on the link itself is followed by the page.
  const open = (row, index, event) => {
    go({ row: index }, { replace: true });
    if (event?.target.closest("a") || event?.ctrlKey || event?.metaKey) return;
    follow(link({ view: "tensor", t: row.index }));
  };
  return html`
    <h1 class="hidden-text">Tensors</h1>
    <${NamesTree} model=${model} query=${q} under=${under} />
    <section class="tensors" aria-label="Table of tensors">
      <div class="toolbar">
        <${Search} query=${q} />
        <${Under} under=${under} />
        <${Count} rows=${rows} model=${model} />
      </div>
      ${rows.error && html`<${Failure} error=${rows.error} retry=${rows.retry} />`}
      ${
        rows.isReady
          ? html`<${Table}
            label="Tensors"
            columns=${kColumns}
            rows=${rows}
            sort=${{ column: sort, order }}
            onSort=${changeSort}
            onOpen=${open}
            mark=${Number(location.row ?? 0)}
          />`
          : !rows.error && html`<${Loading} />`
      }
      ${rows.isReady && rows.total === 0 && html`<p class="muted">No tensor has this name.</p>`}
    </section>
  `;
}
