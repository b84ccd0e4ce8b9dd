// All tensors of a model: a tree of their names, and a table that is searched, filtered and sorted.

import { html, useCallback, useEffect, useMemo, useState } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatBytes, formatCount, formatParameters, formatPercent, formatShape, shorten } from "../format.js";
import { Failure, Loading } from "../parts/load.js";
import { useMedia } from "../parts/media.js";
import { fitNames } from "../parts/names.js";
import { kPageRows, useRows } from "../parts/rows.js";
import { Table } from "../parts/table.js";
import { figureColumns, FiguresStatus, isFigure, kMostSorted, sortedByFigure, useFigures } from "../parts/tensor_figures.js";
import { GroupChoices, Search, Under } from "../parts/tensor_filters.js";
import { Tree } from "../parts/tree.js";
import { follow, go, link } from "../state.js";

// The tree follows the search when a person stops typing: the server has to look at all names for it.
const kTreeDebounce = 200;
const kNarrow = matchMedia("(max-width: 799px)");

const kStateFrom = 520;

const nameCell = (row, { texts }) =>
  html`<a class="name" tabindex="-1" href=${link({ view: "tensor", t: row.index })} title=${clean(row.name)}
    >${texts.get(row)}</a
  >`;

// The names of `rows` as they are shown in `characters`.
function textsOf(rows, characters, prefix) {
  const texts = fitNames(
    rows.map(({ name }) => name),
    characters,
    prefix,
  );
  return new Map(rows.map((row, i) => [row, texts[i]]));
}

const refused = html`<span class="refused">refused</span>`;

// In a narrow table, which has no column for the state, "refused" stands in place of the type.
const typeCell = (row, { width }) => (row.refused && width < kStateFrom ? refused : clean(row.dtype));

// How the bytes are verified when they are read; "–" if no digest of them is known.
const stateCell = (row) => (row.refused ? refused : clean(row.verification ?? "–"));

// The columns besides the name. Those of figures take the place of some in a table that is not wide.
function columnsOf(areFiguresShown) {
  const from = (width) => (areFiguresShown ? width + 420 : width);
  return [
    { id: "dtype", title: "dtype", cell: typeCell, isSortable: true, width: 84, tallWidth: 64 },
    {
      id: "shape",
      title: "shape",
      cell: (row) => formatShape(row.shape),
      isSortable: true,
      width: 168,
      from: from(560),
      isInTall: !areFiguresShown,
    },
    {
      id: "parameters",
      title: "parameters",
      cell: (row) => formatParameters(row.parameters),
      isNumber: true,
      isSortable: true,
      width: 104,
      from: from(680),
    },
    { id: "bytes", title: "size", cell: (row) => formatBytes(row.bytes), isNumber: true, isSortable: true, width: 84 },
    {
      id: "share",
      title: "share",
      cell: (row) => formatPercent(row.share),
      isNumber: true,
      isSortable: true,
      width: 72,
      from: from(640),
    },
    { id: "verification", title: "verified", cell: stateCell, isSortable: true, width: 84, from: from(kStateFrom) },
  ];
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

function Count({ rows, model }) {
  if (!rows.isReady) return null;
  const all = formatCount(model.tensors);
  const text = rows.total === model.tensors ? `${all} tensors` : `${formatCount(rows.total)} of ${all} tensors`;
  return html`<span class="muted" role="status">${text}</span>`;
}

// The tree may have thousands of items, so it is not rendered again for each key of the search and each page of the table.
function NamesTree({ model, filter }) {
  const isNarrow = useMedia(kNarrow);
  const { under, dtype, layer } = filter;
  const query = useSettled(filter.q, kTreeDebounce);
  const makeTree = () => html`<${Tree}
    label="Names"
    load=${(prefix, each, signal) =>
      getJson("tree", { model: model.path, v: model.v, under: prefix, q: query, dtype, layer, each: each ? 1 : null }, signal)}
    source=${[query, dtype, layer].join("\n")}
    chosen=${under}
    onChoose=${(prefix) => go({ under: prefix, row: null })}
    onOpen=${(index) => follow(link({ view: "tensor", t: index }))}
  />`;
  const tree = useMemo(makeTree, [model.path, model.v, query, under, dtype, layer]);
  if (!isNarrow) return html`<section class="names" aria-label="Tree of names">${tree}</section>`;
  return html`<details class="names">
    <summary>Tree of names</summary>
    ${tree}
  </details>`;
}

// The rows of the table, with figures if they are shown. Those of a table that is sorted by a figure are sorted here.
function useTensorRows(model, filter, sort, areFiguresShown) {
  const parameters = { model: model.path, v: model.v, ...filter };
  const listKey = JSON.stringify(parameters);
  const load = (more, signal) => getJson("tensors", { ...parameters, ...more }, signal);
  const loadAll = (signal) => load({ limit: kMostSorted }, signal);
  const [total, setTotal] = useState(0);
  const figures = useFigures({ model, isOn: areFiguresShown, total, loadAll, listKey });
  const isByFigure = isFigure(sort.column) && areFiguresShown;
  const isSorted = isByFigure && figures.stage !== "pending";
  const fetchPage = async (offset, signal) => {
    if (isSorted) {
      const all = sortedByFigure(figures.all, figures.queue, sort);
      return { total: all.length, rows: all.slice(offset, offset + kPageRows), prefix: figures.prefix };
    }
    const order = isFigure(sort.column) ? {} : { sort: sort.column, order: sort.order };
    const { total: count, tensors, prefix } = await load({ ...order, offset, limit: kPageRows }, signal);
    return { total: count, rows: tensors, prefix };
  };
  const stage = isByFigure ? figures.stage : null;
  const rows = useRows(fetchPage, JSON.stringify([parameters, isSorted || !isFigure(sort.column) ? sort : null, stage]));
  useEffect(() => setTotal(rows.total), [rows.total]);
  const { rowAt, want: wantPages } = rows;
  const want = useCallback(
    (first, last) => {
      wantPages(first, last);
      const visible = Array.from({ length: last - first }, (_, place) => rowAt(first + place));
      figures.show(visible.filter((row) => row !== null));
    },
    [wantPages, rows.version, figures.all, areFiguresShown],
  );
  return { rows: { ...rows, want, version: `${rows.version} ${figures.version}` }, figures };
}

const kFirstOrder = (column) => (column.isNumber ? "desc" : "asc");

export default function TensorsView({ location, model }) {
  const { q = "", under = "", dtype = "", layer = "", sort: column = "index", order = "asc" } = location;
  const filter = { q, under, dtype, layer };
  const areFiguresShown = location.figures === "1";
  const { rows, figures } = useTensorRows(model, filter, { column, order }, areFiguresShown);
  const isSortable = figures.all !== null;
  const prefix = rows.more.prefix ?? "";
  const makeColumns = () => [
    {
      id: "name",
      title: "name",
      cell: nameCell,
      isSortable: true,
      textsOf: (some, characters) => textsOf(some, characters, prefix),
    },
    ...columnsOf(areFiguresShown),
    ...(areFiguresShown ? figureColumns(figures.queue, isSortable) : []),
  ];
  const columns = useMemo(makeColumns, [areFiguresShown, isSortable, figures.queue, prefix]);

  // A header sorts numbers with the largest and texts with the first one first, then the other way round, then in the order of the container.
  const changeSort = (id) => {
    const first = kFirstOrder(columns.find((each) => each.id === id));
    const isLast = column === id && order !== first;
    const next = column === id ? (first === "asc" ? "desc" : "asc") : first;
    const sort = isLast ? { sort: null, order: null } : { sort: id, order: next === "asc" ? null : next };
    go({ ...sort, row: null }, { replace: true });
  };
  const toggleFigures = () => {
    const sort = areFiguresShown && isFigure(column) ? { sort: null, order: null } : {};
    go({ figures: areFiguresShown ? null : "1", ...sort, row: null }, { replace: true });
  };
  // The row is kept in the history entry, so that the way back leads to it. A click on the link itself is followed by the page.
  const open = (row, index, event) => {
    go({ row: index }, { replace: true });
    if (event?.target.closest("a") || event?.ctrlKey || event?.metaKey) return;
    follow(link({ view: "tensor", t: row.index }));
  };
  return html`
    <h1 class="hidden-text">Tensors</h1>
    <${NamesTree} model=${model} filter=${filter} />
    <section class="tensors" aria-label="Table of tensors">
      <div class="toolbar">
        <${Search} query=${q} />
        <${GroupChoices} model=${model} dtype=${dtype} layer=${layer} />
        <button
          type="button"
          aria-pressed=${areFiguresShown ? "true" : "false"}
          title="Standard deviation, largest absolute and zeros of each tensor"
          onClick=${toggleFigures}
        >
          Statistics
        </button>
        <${Under} under=${under} />
        <${Count} rows=${rows} model=${model} />
        ${prefix !== "" && prefix !== under && html`<span class="muted">below <code>${shorten(prefix, 40)}</code></span>`}
      </div>
      ${areFiguresShown && rows.isReady && html`<${FiguresStatus} figures=${figures} isSorted=${isFigure(column)} />`}
      ${rows.error && html`<${Failure} error=${rows.error} retry=${rows.retry} />`}
      ${
        rows.isReady
          ? html`<${Table}
            label="Tensors"
            columns=${columns}
            rows=${rows}
            sort=${{ column, order }}
            onSort=${changeSort}
            onOpen=${open}
            mark=${Number(location.row ?? 0)}
          />`
          : !rows.error && html`<${Loading} />`
      }
      ${rows.isReady && rows.total === 0 && html`<p class="muted">No tensor fits the search and the filters.</p>`}
    </section>
  `;
}
