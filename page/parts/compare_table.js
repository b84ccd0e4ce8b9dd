// The table of the tensors that differ, the worst first.

import { html, useMemo, useState } from "../lib.js";
import { clean, formatCosine, formatNumber, formatPercent, formatShape } from "../format.js";
import { link } from "../state.js";
import { sorted } from "./comparison.js";
import { fitNames } from "./names.js";
import { Table } from "./table.js";

const kArrow = " → ";

function nameCell(row, { texts }) {
  const title = [row.name, row.newName]
    .filter((name) => name !== null)
    .map(clean)
    .join(kArrow);
  if (!row.indices) return html`<span class="name" title=${title}>${texts.get(row)}</span>`;
  return html`<a class="name" tabindex="-1" href=${pairLink(row)} title=${title}>${texts.get(row)}</a>`;
}

// The names of `rows` as they are shown in `characters`; a renamed tensor has two.
function textsOf(rows, characters) {
  const half = Math.floor((characters - kArrow.length) / 2);
  const fit = (some, most, nameOf) => fitNames(some.map(nameOf), most);
  const single = rows.filter(({ newName }) => newName === null);
  const renamed = rows.filter(({ newName }) => newName !== null);
  const [from, to] = [fit(renamed, half, ({ name }) => name), fit(renamed, half, ({ newName }) => newName)];
  const names = fit(single, characters, ({ name }) => name);
  return new Map([...single.map((row, i) => [row, names[i]]), ...renamed.map((row, i) => [row, from[i] + kArrow + to[i]])]);
}

const typeText = ({ a, b }) => (a.dtype === b.dtype ? clean(a.dtype) : `${clean(a.dtype)}${kArrow}${clean(b.dtype)}`);

function shapeText({ a, b }) {
  const [from, to] = [formatShape(a.shape), formatShape(b.shape)];
  return from === to ? from : `${from}${kArrow}${to}`;
}

const numberCell = (format, field) => (row) => (row.stat ? format(row.stat[field]) : "");

// SNR without noise is not a number in JSON. The reason why there is none is a title.
function snrCell({ stat, noStat, change }) {
  if (stat) return formatNumber(stat.snr_db);
  if (change === "renamed") return noStat;
  return noStat === null ? "" : html`<span title=${clean(noStat)}>–</span>`;
}

const kColumns = [
  { id: "name", title: "name", cell: nameCell, isSortable: true, textsOf },
  { id: "change", title: "change", cell: (row) => row.change, isSortable: true, width: 112, from: 560, isInTall: true },
  { id: "type", title: "type", cell: typeText, width: 136, from: 840 },
  { id: "shape", title: "shape", cell: shapeText, width: 160, from: 1080 },
  { id: "snr", title: "SNR in dB", cell: snrCell, isNumber: true, isSortable: true, width: 112 },
  {
    id: "error",
    title: "relative error",
    cell: numberCell(formatPercent, "relative_error"),
    isNumber: true,
    isSortable: true,
    width: 112,
    from: 480,
    isInTall: true,
  },
  {
    id: "cosine",
    title: "cosine",
    cell: numberCell((x) => (x === null ? "–" : formatCosine(x)), "cosine"),
    isNumber: true,
    isSortable: true,
    width: 88,
    from: 720,
  },
  {
    id: "max",
    title: "largest difference",
    cell: numberCell(formatNumber, "max"),
    isNumber: true,
    isSortable: true,
    width: 148,
    from: 840,
  },
];

export const pairLink = ({ indices, names }) =>
  link({ t: indices[0], t2: indices[1], ...names, window: null, low: null, high: null }, { keep: true });

// `rows` as of rowsOf(); `onOpen(row)` is called for rows that have a pair of tensors.
export function CompareTable({ rows, onOpen }) {
  const [sort, setSort] = useState({ column: "snr", order: "asc" });
  const ordered = useMemo(() => sorted(rows, sort), [rows, sort]);
  const list = useMemo(
    () => ({ list: ordered, total: ordered.length, rowAt: (index) => ordered[index] ?? null, want: () => {} }),
    [ordered],
  );
  const change = (column) =>
    setSort((last) => ({ column, order: last.column === column && last.order === "asc" ? "desc" : "asc" }));
  const open = (row, _, event) => {
    if (!row.indices || event?.target.closest("a") || event?.ctrlKey || event?.metaKey) return;
    onOpen(row);
  };
  return html`<div class="compare-table" style=${{ "--rows": ordered.length }}>
    <${Table}
      label="Tensors that differ"
      columns=${kColumns}
      rows=${list}
      sort=${sort}
      onSort=${change}
      onOpen=${open}
    />
  </div>`;
}
