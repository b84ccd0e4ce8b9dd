// The keys and values of a model's metadata: a table that the server searches, with long lists that are opened page by page.

import { html, useState } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatBytes, formatCount } from "../format.js";
import { go } from "../state.js";
import { Failure, Loading, useLoad } from "./load.js";
import { SearchField } from "./search_field.js";
import { Text } from "./text.js";

const kRows = 200;
const kItems = 100;
const kNoHits = { starts: [], ends: [], isCut: false };
const kNouns = { list: ["item", "items"], object: ["key", "keys"] };

const countOf = ({ opens, count }) =>
  opens === "text" ? formatBytes(count) : `${formatCount(count)} ${kNouns[opens][count === 1 ? 0 : 1]}`;

function Item({ name, value }) {
  const isText = typeof value === "string";
  return html`<li>
    <span class="json-index">${typeof name === "number" ? formatCount(name) : clean(name)}</span>
    <span class=${isText ? "json-text" : "json-number"}>${isText ? clean(value) : String(value)}</span>
  </li>`;
}

// A page of a list or an object, with buttons for the ones around it.
function Items({ page, offset, onOffset }) {
  const { total, items, keys } = page;
  const last = offset + items.length;
  return html`<div class="items">
    ${
      total > kItems &&
      html`<div class="toolbar">
        <button type="button" disabled=${offset === 0} onClick=${() => onOffset(0)}>First</button>
        <button type="button" disabled=${offset === 0} onClick=${() => onOffset(Math.max(0, offset - kItems))}>Previous</button>
        <button type="button" disabled=${last >= total} onClick=${() => onOffset(offset + kItems)}>Next</button>
        <button type="button" disabled=${last >= total} onClick=${() => onOffset(Math.floor((total - 1) / kItems) * kItems)}>Last</button>
        <span class="muted" role="status">${`${formatCount(offset)} to ${formatCount(last - 1)} of ${formatCount(total)}`}</span>
      </div>`
    }
    <ul class="entries">
      ${items.map((value, place) => html`<${Item} key=${offset + place} name=${keys?.[place] ?? offset + place} value=${value} />`)}
    </ul>
  </div>`;
}

// What an entry has, once it is opened.
function Opened({ entry, model }) {
  const [offset, setOffset] = useState(0);
  const { value, error, retry } = useLoad(
    (signal) => getJson("metadata", { model: model.path, v: model.v, entry: entry.entry, offset, limit: kItems }, signal),
    [entry.entry, offset],
  );
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (!value) return html`<${Loading} />`;
  if (entry.opens !== "text") return html`<${Items} page=${value} offset=${value.offset} onOffset=${setOffset} />`;
  return html`<${Text} label=${`Text of ${clean(entry.key)}`} text=${value.text} hits=${kNoHits} hit=${0} />`;
}

function LongValue({ entry, model }) {
  const [isOpen, setIsOpen] = useState(false);
  return html`<details onToggle=${(event) => event.target === event.currentTarget && setIsOpen(event.target.open)}>
    <summary><span class="muted">${countOf(entry)}</span> ${entry.shown && clean(entry.shown.split("\n")[0])}</summary>
    ${isOpen && html`<${Opened} entry=${entry} model=${model} />`}
  </details>`;
}

function Row({ entry, model }) {
  return html`<tr>
    <th scope="row" class="name">${clean(entry.key)}</th>
    <td class="muted type">${clean(entry.type)}</td>
    <td class="value">
      ${entry.opens ? html`<${LongValue} entry=${entry} model=${model} />` : html`<span>${clean(entry.shown)}</span>`}
    </td>
  </tr>`;
}

// The rows of the same place under its name.
function Group({ from, entries, model }) {
  return html`<tbody>
    <tr>
      <th colspan="3" scope="rowgroup" class="from">${clean(from)}</th>
    </tr>
    ${entries.map((entry) => html`<${Row} key=${entry.entry} entry=${entry} model=${model} />`)}
  </tbody>`;
}

function groupsOf(entries) {
  const groups = [];
  for (const entry of entries) {
    if (groups.at(-1)?.from !== entry.from) groups.push({ from: entry.from, entries: [] });
    groups.at(-1).entries.push(entry);
  }
  return groups;
}

function From({ names, from }) {
  if (names.length < 2) return null;
  return html`<select aria-label="From" value=${from} onChange=${(event) => go({ from: event.target.value }, { replace: true })}>
    <option value="">from everywhere</option>
    ${names.map((name) => html`<option key=${name} value=${name}>${clean(name)}</option>`)}
  </select>`;
}

export function EntryList({ location, model }) {
  const { q = "", from = "" } = location;
  const [wanted, setWanted] = useState({ list: "", rows: kRows });
  const list = JSON.stringify([q, from]);
  const rows = wanted.list === list ? wanted.rows : kRows;
  const { value, error, retry } = useLoad(
    async (signal) => {
      const pages = [];
      for (let offset = 0; offset < rows; offset += kRows) {
        pages.push(await getJson("metadata", { model: model.path, v: model.v, q, from, offset, limit: kRows }, signal));
      }
      return { total: pages[0].total, from: pages[0].from, entries: pages.flatMap((page) => page.entries) };
    },
    [list, rows],
  );
  const entries = value?.entries ?? [];
  return html`<section class="metadata" aria-label="Keys and values">
    <div class="toolbar">
      <${SearchField} label="Search keys and values" query=${q} onQuery=${(text) => go({ q: text }, { replace: true })} />
      <${From} names=${value?.from ?? []} from=${from} />
      ${value && html`<span class="muted" role="status">${`${formatCount(value.total)} ${value.total === 1 ? "entry" : "entries"}`}</span>`}
    </div>
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${!value && !error && html`<${Loading} />`}
    ${
      entries.length > 0 &&
      html`<table class="keys">
        <thead>
          <tr>
            <th scope="col">key</th>
            <th scope="col">type</th>
            <th scope="col">value</th>
          </tr>
        </thead>
        ${groupsOf(entries).map((group, place) => html`<${Group} key=${place} ...${group} model=${model} />`)}
      </table>`
    }
    ${value && value.total === 0 && html`<p class="muted">${q || from ? "Nothing has these words." : "This model has no metadata."}</p>`}
    ${
      value &&
      entries.length < value.total &&
      html`<button type="button" onClick=${() => setWanted({ list, rows: rows + kRows })}>
        Show more (${formatCount(entries.length)} of ${formatCount(value.total)})
      </button>`
    }
  </section>`;
}
