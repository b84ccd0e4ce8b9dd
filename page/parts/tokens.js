// The tokens of a vocabulary: a table that the server searches by text or id.

import { html, useRef } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatCount, formatNumber, shorten } from "../format.js";
import { go } from "../state.js";
import { Failure, Loading } from "./load.js";
import { kPageRows, useRows } from "./rows.js";
import { SearchField } from "./search_field.js";
import { Table } from "./table.js";

const kNoSort = { column: "", order: "asc" };

const tokenCell = (row, { characters }) =>
  html`<span class="name" title=${clean(row.token)}>${shorten(row.token, characters)}</span>`;
// In quotes, because most texts begin with a space.
const textCell = (row) => (row.text === null ? "" : html`<span class="name">${`“${shorten(row.text, 24)}”`}</span>`);

const kColumns = [
  { id: "id", title: "id", cell: (row) => row.id, width: 72 },
  { id: "token", title: "token", cell: tokenCell },
  { id: "text", title: "stands for", cell: textCell, width: 200, from: 640 },
  { id: "type", title: "type", cell: (row) => clean(row.type ?? "–"), width: 104 },
  { id: "score", title: "score", cell: (row) => formatNumber(row.score), isNumber: true, width: 88, from: 480 },
];

function Type({ types, type }) {
  if (types.length < 2) return null;
  return html`<select aria-label="Type" value=${type} onChange=${(event) => go({ type: event.target.value, row: null }, { replace: true })}>
    <option value="">all types</option>
    ${types.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
  </select>`;
}

function Count({ rows, statedIn }) {
  return html`<span class="muted" role="status">${`${formatCount(rows.total)} ${rows.total === 1 ? "token" : "tokens"}`}</span>
    <span class="muted">${`of ${clean(statedIn)}`}</span>`;
}

export function TokenTable({ location, model }) {
  const { q = "", type = "" } = location;
  const parameters = { model: model.path, v: model.v, q, type, limit: kPageRows };
  const about = useRef(null); // what each page says of the vocabulary
  const fetchPage = async (offset, signal) => {
    const page = await getJson("tokens", { ...parameters, offset }, signal);
    about.current = page;
    return { total: page.total, rows: page.tokens };
  };
  const rows = useRows(fetchPage, JSON.stringify(parameters));
  const { stated_in: statedIn = null, has_scores: hasScores = false, types = [] } = about.current ?? {};
  if (rows.isReady && statedIn === null) return html`<p class="muted">This model has no tokens.</p>`;
  return html`<section class="metadata tokens" aria-label="Tokens">
    <div class="toolbar">
      <${SearchField} label="Search tokens, or id 13" query=${q} onQuery=${(text) => go({ q: text }, { replace: true })} />
      <${Type} types=${types} type=${type} />
      ${rows.isReady && html`<${Count} rows=${rows} statedIn=${statedIn} />`}
    </div>
    ${rows.error && html`<${Failure} error=${rows.error} retry=${rows.retry} />`}
    ${
      rows.isReady
        ? html`<${Table}
          label="Tokens"
          columns=${hasScores ? kColumns : kColumns.filter((column) => column.id !== "score")}
          rows=${rows}
          sort=${kNoSort}
          onSort=${() => {}}
          onOpen=${() => {}}
        />`
        : !rows.error && html`<${Loading} />`
    }
    ${rows.isReady && rows.total === 0 && html`<p class="muted">No token has this text.</p>`}
  </section>`;
}
