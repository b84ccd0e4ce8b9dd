// The models of a directory, with its path, a filter and what they are together: to open one, or to choose one.

import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { getJson } from "../api.js";
import { formatBytes, formatCount, shorten } from "../format.js";
import { useKeys } from "../keys.js";
import { go, isDropped, kDroppedDepth, link } from "../state.js";
import { Failure, Loading, useLoad } from "./load.js";
import { firstOrder, kColumns } from "./model_order.js";
import { useModelRows } from "./model_rows.js";
import { ModelTable } from "./model_table.js";

const kDebounce = 150;
// A list of fewer models needs no filter.
const kFewModels = 5;

export const getDirectory = (directory, query, signal) => getJson("models", { dir: directory, below: 1, q: query }, signal);

// The directories from the source to the present one, each a link. What was dropped begins with its own name.
function Path({ directory }) {
  const names = directory.split("/").filter(Boolean);
  if (names.length === 0) return null;
  const first = isDropped(directory) ? kDroppedDepth - 1 : 0;
  const linkTo = (depth) => link({ dir: names.slice(0, depth).join("/"), q: null }, { keep: true });
  return html`<nav class="path" aria-label="Directories">
    <a href=${linkTo(0)}>all</a>
    ${names.map((name, depth) => depth >= first && html` / <a key=${depth} href=${linkTo(depth + 1)}>${shorten(name, 40)}</a>`)}
  </nav>`;
}

function Filter({ query }) {
  const field = useRef(null);
  const [text, setText] = useState(query);
  useEffect(() => {
    if (text === query) return undefined;
    const timer = setTimeout(() => go({ q: text }, { replace: true }), kDebounce);
    return () => clearTimeout(timer);
  }, [text]);
  useKeys({
    "/": () => field.current.select(),
    Escape: () => (text === "" ? field.current.blur() : setText("")),
  });
  return html`<input
    ref=${field}
    class="grow"
    type="search"
    placeholder="Filter models ( / )"
    aria-label="Filter models"
    autocomplete="off"
    spellcheck=${false}
    value=${text}
    onInput=${(event) => setText(event.target.value)}
  />`;
}

// "12 models · 45.3 GiB · 2 damaged": of the rows that are read.
function totalsOf(rows) {
  const models = rows.filter((row) => row.kind === "model");
  const bytes = models.reduce((sum, row) => sum + (row.bytes ?? 0), 0);
  const withAlert = (word) => models.filter((row) => row.alerts?.some((alert) => alert.startsWith(word))).length;
  const counts = [
    [withAlert("DAMAGED"), "damaged"],
    [withAlert("INCOMPLETE"), "incomplete"],
    [withAlert("RUNS CODE"), withAlert("RUNS CODE") === 1 ? "runs code" : "run code"],
    [models.filter((row) => row.error !== undefined).length, "cannot be read"],
  ];
  const parts = counts.filter(([count]) => count > 0).map(([count, what]) => `${formatCount(count)} ${what}`);
  return [`${formatCount(models.length)} ${models.length === 1 ? "model" : "models"}`, formatBytes(bytes), ...parts].join(
    " · ",
  );
}

function Totals({ entries, read, list }) {
  const count = entries.filter(({ kind }) => kind !== "file").length;
  const known = entries.map(({ path }) => read.rows.get(path)).filter(Boolean);
  const { files } = list;
  const others = files > 0 ? ` · ${formatCount(files)} other ${files === 1 ? "file" : "files"}` : "";
  if (read.isDone) return html`<p class="muted" role="status">${totalsOf(known)}${others}</p>`;
  return html`<p class="muted">
    ${formatCount(known.length)} of ${formatCount(count)} read${others}
    ${
      read.isPaused &&
      html`${" "}<button type="button" onClick=${read.readAll}>Read the others</button>${" "}The models in sight are read first; the order counts
        those that are read.`
    }
  </p>`;
}

// The directories that all names begin with, such as the host of a registry: they are shown once.
function commonPath(entries) {
  const [first = "", ...others] = entries.map(({ name }) => name.slice(0, name.lastIndexOf("/") + 1));
  let path = others.length > 0 ? first : "";
  while (path !== "" && !others.every((name) => name.startsWith(path)))
    path = path.slice(0, path.lastIndexOf("/", path.length - 2) + 1);
  return path;
}

function useSort({ sort, order }) {
  const column = kColumns.find(({ id }) => id === sort) ?? kColumns[0];
  const present = { column: column.id, order: order === "asc" || order === "desc" ? order : firstOrder(column) };
  const onSort = (chosen) => {
    const isOther = chosen.id !== present.column;
    const next = isOther ? firstOrder(chosen) : present.order === "asc" ? "desc" : "asc";
    go({ sort: chosen.id, order: next }, { replace: true });
  };
  return [present, onSort];
}

function Content({ list, location, target }) {
  const [sort, onSort] = useSort(location);
  const { entries } = list;
  const read = useModelRows(entries, location.dir ?? "");
  const count = entries.filter(({ kind }) => kind !== "file").length;
  const prefix = useMemo(() => commonPath(entries), [entries]);
  const { q = "" } = location;
  return html`
    ${(count > kFewModels || q !== "") && html`<div class="toolbar"><${Filter} query=${q} /></div>`}
    ${read.error && html`<${Failure} error=${read.error} retry=${read.retry} />`}
    <${Totals} entries=${entries} read=${read} list=${list} />
    ${prefix !== "" && html`<p class="muted">All in <span class="name">${shorten(prefix, 120)}</span></p>`}
    <${ModelTable} entries=${entries} read=${read} filter=${q} sort=${sort} onSort=${onSort} target=${target} prefix=${prefix} />
    ${
      list.truncated &&
      html`<p class="muted">Only ${formatCount(entries.length)} entries are listed. The filter finds others by their names.</p>`
    }
  `;
}

// `target` is that of ModelTable(). `onList(list)` is called with each response that no search has cut.
export function Directory({ location, target, onList }) {
  const directory = location.dir ?? "";
  const [isCut, setIsCut] = useState(false);
  // A list that is cut is filtered by the server, which knows only the names.
  const query = isCut ? (location.q ?? "") : "";
  const { value, error, retry } = useLoad(
    async (signal) => ({ directory, list: await getDirectory(directory, query, signal) }),
    [directory, query],
  );
  const list = value?.directory === directory ? value.list : undefined;
  useEffect(() => {
    if (!list) return;
    if (list.truncated) setIsCut(true);
    if (query === "") onList?.(list);
  }, [list]);
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (!list) return html`<${Loading} />`;
  const isEmpty = query === "" && list.entries.every(({ kind }) => kind === "file");
  return html`
    <${Path} directory=${directory} />
    ${
      isEmpty
        ? html`<p>No supported model in this directory.</p>`
        : html`<${Content} key=${directory} list=${list} location=${location} target=${target} />`
    }
  `;
}
