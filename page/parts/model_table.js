// The models of a directory: a table, or a card for each in a narrow window; sorted by every column, and filtered by what it shows.

import { Component, html, useEffect, useMemo, useState } from "../lib.js";
import { clean, formatBytes, formatCount, formatParameters, shorten } from "../format.js";
import { kColumns, sorted } from "./model_order.js";

const kNarrow = matchMedia("(max-width: 699px)");
const kMostName = 160;

function useNarrow() {
  const [isNarrow, setIsNarrow] = useState(kNarrow.matches);
  useEffect(() => {
    const update = () => setIsNarrow(kNarrow.matches);
    kNarrow.addEventListener("change", update);
    return () => kNarrow.removeEventListener("change", update);
  }, []);
  return isNarrow;
}

// "DAMAGED", with its sentence when it is opened.
function Alert({ text }) {
  const at = text.indexOf(": ");
  const word = at < 0 ? text : text.slice(0, at);
  return html`<details class="alert">
    <summary>${clean(word)}</summary>
    <p>${clean(at < 0 ? text : text.slice(at + 2))}</p>
  </details>`;
}

function State({ row }) {
  if (row?.error !== undefined) return html`<${Alert} text=${`cannot be read: ${row.error}`} />`;
  return (row?.alerts ?? []).map((alert, i) => html`<${Alert} key=${i} text=${alert} />`);
}

function Name({ entry, row, target, prefix }) {
  const isDirectory = (row?.kind ?? entry.kind) === "directory";
  const name = `${shorten(entry.name.slice(prefix.length), kMostName)}${isDirectory ? "/" : ""}`;
  const href = target.hrefOf(entry, isDirectory);
  const hasTitle = row?.title && row.title !== entry.name.slice(entry.name.lastIndexOf("/") + 1);
  const title = hasTitle && html`${" "}<span class="title muted">${shorten(row.title, 80)}</span>`;
  if (href === null) return html`<span class="name">${name}</span>${title}${" "}<span class="muted">${target.note}</span>`;
  return html`<span><a class="name" href=${href} title=${clean(entry.path)}>${name}</a>${title}</span>`;
}

function kindText(entry, row) {
  if (!row) return "…";
  if (row.kind === "directory") return `${formatCount(row.entries)} ${row.entries === 1 ? "entry" : "entries"}`;
  return clean(row.what ?? "");
}

// A model that was read has a dash for a number that is not known. A directory has no numbers.
const numberText = (row, format, number) => (row?.kind === "model" && row.error === undefined ? format(number) : "");

// Rendered again only if it shows something else: there may be a thousand.
class Row extends Component {
  shouldComponentUpdate(next) {
    return (
      next.row !== this.props.row ||
      next.entry !== this.props.entry ||
      next.target !== this.props.target ||
      next.prefix !== this.props.prefix
    );
  }

  render({ entry, row, target, prefix, observe }) {
    return html`<tr ref=${observe} data-path=${entry.path}>
      <th scope="row"><${Name} entry=${entry} row=${row} target=${target} prefix=${prefix} /></th>
      <td>${kindText(entry, row)}</td>
      <td class="number">${numberText(row, formatParameters, row?.parameters)}</td>
      <td>${clean(row?.quantised ?? "")}</td>
      <td class="number">${numberText(row, formatBytes, row?.bytes)}</td>
      <td class="number">${numberText(row, formatCount, row?.context)}</td>
      <td><${State} row=${row} /></td>
    </tr>`;
  }
}

class Card extends Row {
  render({ entry, row, target, prefix, observe }) {
    const isRead = row?.kind === "model" && row.error === undefined;
    const parts = isRead
      ? [
          row.parameters === null ? "" : `${formatParameters(row.parameters)} parameters`,
          clean(row.quantised),
          formatBytes(row.bytes),
          row.context === null ? "" : `${formatCount(row.context)} tokens`,
        ]
      : [];
    return html`<li ref=${observe} data-path=${entry.path} class="card">
      <${Name} entry=${entry} row=${row} target=${target} prefix=${prefix} />
      <span class="muted">${[kindText(entry, row), ...parts].filter(Boolean).join(" · ")}</span>
      <${State} row=${row} />
    </li>`;
  }
}

function HeadCell({ column, sort, onSort }) {
  const isSorted = sort.column === column.id;
  return html`<th scope="col" class=${column.isNumber ? "number" : ""} aria-sort=${isSorted ? `${sort.order}ending` : "none"}>
    <button type="button" class="plain" onClick=${() => onSort(column)}>
      ${column.title}<span aria-hidden="true">${isSorted ? (sort.order === "asc" ? " ▲" : " ▼") : ""}</span>
    </button>
  </th>`;
}

function Cards({ rows, sort, onSort, common }) {
  const column = kColumns.find(({ id }) => id === sort.column);
  return html`<div class="toolbar">
      <label>
        Sorted by
        <select value=${column.id} onChange=${(event) => onSort(kColumns.find(({ id }) => id === event.target.value))}>
          ${kColumns.map(({ id, title }) => html`<option key=${id} value=${id}>${title}</option>`)}
        </select>
      </label>
      <button type="button" aria-label="Other order" onClick=${() => onSort(column)}>${sort.order === "asc" ? "▲" : "▼"}</button>
    </div>
    <ul class="cards" aria-label="Models">
      ${rows.map(({ entry, row }) => html`<${Card} key=${entry.path} entry=${entry} row=${row} ...${common} />`)}
    </ul>`;
}

// `read` is that of useModelRows(). `target` is {hrefOf(entry, isDirectory), note}: where a name leads; one that leads nowhere has the
// note. `sort` is {column, order}; `onSort(column)` is called with a row of kColumns. Names are shown without
// `prefix`.
export function ModelTable({ entries, read, filter, sort, onSort, target, prefix }) {
  const isNarrow = useNarrow();
  const { rows, version, observe } = read;
  const shown = useMemo(() => sorted(entries, rows, filter, sort), [entries, rows, version, filter, sort.column, sort.order]);
  const common = { target, prefix, observe };
  if (shown.length === 0) return html`<p class="muted">No model has these words.</p>`;
  if (isNarrow) return html`<${Cards} rows=${shown} sort=${sort} onSort=${onSort} common=${common} />`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Models">
    <table class="models-table">
      <thead>
        <tr>
          ${kColumns.map((column) => html`<${HeadCell} key=${column.id} column=${column} sort=${sort} onSort=${onSort} />`)}
        </tr>
      </thead>
      <tbody>
        ${shown.map(({ entry, row }) => html`<${Row} key=${entry.path} entry=${entry} row=${row} ...${common} />`)}
      </tbody>
    </table>
  </div>`;
}
