// One file of a model as text: a tree for JSON, lines with numbers for all others, and a search in both.

import { html, useEffect, useRef, useState } from "../lib.js";
import { fileHref, hasToken, isAborted, readFile } from "../api.js";
import { clean, formatBytes, formatCount, shorten } from "../format.js";
import { useKeys } from "../keys.js";
import { scanRoot } from "./json_scan.js";
import { JsonTree } from "./json_tree.js";
import { hitsOf } from "./lines.js";
import { Failure, Loading, useLoad } from "./load.js";
import { Text } from "./text.js";

const kPart = 1 << 20;
const kJsonPart = 4 << 20;
// A larger JSON file is shown as text, part by part.
const kMostJson = 64 << 20;
const kDebounce = 80;
const kNoHits = { starts: [], ends: [], isCut: false };

const isJson = (path) => path.toLowerCase().endsWith(".json");

// The text of a file as far as it was read: {text, read, total, error, isLoading, more()}. JSON is read as a whole.
function useText(href, isWhole) {
  const [state, setState] = useState({ text: "", read: 0, total: null });
  const [wanted, setWanted] = useState(1);
  const decoder = useRef(null);
  const { error, isLoading, retry } = useLoad(
    async (signal) => {
      let { text, read, total } = state;
      decoder.current ??= new TextDecoder();
      const isEnough = () => total !== null && (read >= total || (read >= wanted && !(isWhole && total <= kMostJson)));
      while (!isEnough()) {
        const part = await readFile(href, { signal, from: read, to: read + (read === 0 ? kPart : kJsonPart) });
        read += part.bytes.length;
        total = part.bytes.length === 0 ? read : part.total;
        text += decoder.current.decode(part.bytes, { stream: read < total });
        setState({ text, read, total });
      }
    },
    [wanted],
  );
  return { ...state, error, isLoading, retry, more: () => setWanted(state.read + 1) };
}

// The hits of what is typed, after a pause, and the present one.
function useSearch(text) {
  const [query, setQuery] = useState("");
  const [hits, setHits] = useState(kNoHits);
  const [hit, setHit] = useState(0);
  useEffect(() => {
    const timer = setTimeout(() => {
      setHits(hitsOf(text, query));
      setHit(0);
    }, kDebounce);
    return () => clearTimeout(timer);
  }, [text, query]);
  const count = hits.starts.length;
  const step = (by) => count > 0 && setHit((hit + by + count) % count);
  return { query, setQuery, hits, hit: Math.min(hit, Math.max(0, count - 1)), step };
}

function countText({ query, hits, hit }) {
  if (query === "") return "";
  const count = hits.starts.length;
  if (count === 0) return "not found";
  return `${formatCount(hit + 1)} of ${hits.isCut ? "more than " : ""}${formatCount(count)}`;
}

function Search({ search }) {
  const field = useRef(null);
  useKeys({
    "/": () => field.current.select(),
    Escape: () => (search.query === "" ? field.current.blur() : search.setQuery("")),
  });
  const onKeyDown = (event) => {
    if (event.key === "Enter") search.step(event.shiftKey ? -1 : 1);
  };
  const hasHits = search.hits.starts.length > 0;
  return html`<span class="search">
    <input
      ref=${field}
      type="search"
      placeholder="Search in the text ( / )"
      aria-label="Search in the text"
      autocomplete="off"
      spellcheck=${false}
      value=${search.query}
      onInput=${(event) => search.setQuery(event.target.value)}
      onKeyDown=${onKeyDown}
    />
    <button type="button" aria-label="Previous hit" disabled=${!hasHits} onClick=${() => search.step(-1)}>↑</button>
    <button type="button" aria-label="Next hit" disabled=${!hasHits} onClick=${() => search.step(1)}>↓</button>
    <span class="muted" role="status">${countText(search)}</span>
  </span>`;
}

// A link cannot send a token: the file is then read by the page and saved from memory.
function RawFile({ href, path }) {
  const [error, setError] = useState(null);
  if (!hasToken) return html`<a href=${href} target="_blank" rel="noopener">Raw file</a>`;
  const save = async () => {
    try {
      const address = URL.createObjectURL(new Blob([(await readFile(href)).bytes]));
      Object.assign(document.createElement("a"), { href: address, download: path.split("/").at(-1) }).click();
      setTimeout(() => URL.revokeObjectURL(address));
      setError(null);
    } catch (fault) {
      if (!isAborted(fault)) setError(fault);
    }
  };
  return html`<button type="button" onClick=${save}>Save the raw file</button>${error && html`<${Failure} error=${error} />`}`;
}

// `tree` is null for a text, else {root}; `root` is undefined until the text is read.
function Content({ path, file, search, tree }) {
  if (file.total === null || (tree && !tree.root)) return file.error ? null : html`<${Loading} />`;
  if (tree) return html`<${JsonTree} text=${file.text} root=${tree.root} />`;
  if (file.total === 0) return html`<p class="muted">The file is empty.</p>`;
  return html`<${Text} label=${`Text of ${clean(path)}`} text=${file.text} hits=${search.hits} hit=${search.hit} />`;
}

export function File({ model, path }) {
  const href = fileHref(model.path, path);
  const canBeTree = isJson(path);
  const file = useText(href, canBeTree);
  const isComplete = file.total !== null && file.read >= file.total;
  const search = useSearch(file.text);
  const [isTreeWanted, setIsTreeWanted] = useState(true);
  const scan = useLoad(
    async (signal) => (canBeTree && isComplete && file.total > 0 ? scanRoot(file.text, signal) : null),
    [canBeTree, isComplete],
  );
  const root = scan.value ?? undefined;
  const isTree = canBeTree && isTreeWanted && search.query === "" && !scan.error && file.total > 0 && file.total <= kMostJson;
  const sizeText = isComplete ? formatBytes(file.total) : `${formatBytes(file.read)} of ${formatBytes(file.total)}`;
  return html`
    <div class="toolbar">
      <h2 class="name" title=${clean(path)}>${shorten(path, 60)}</h2>
      ${file.total !== null && html`<span class="muted">${sizeText}</span>`}
      <${RawFile} href=${href} path=${path} />
      <span class="grow"></span>
      ${
        root &&
        html`<button type="button" aria-pressed=${isTreeWanted} onClick=${() => setIsTreeWanted(!isTreeWanted)}>Tree</button>`
      }
      <${Search} search=${search} />
    </div>
    ${scan.error && html`<p class="notice warning">Shown as text: ${scan.error.message}.</p>`}
    ${file.error && html`<${Failure} error=${file.error} retry=${file.retry} />`}
    <${Content} path=${path} file=${file} search=${search} tree=${isTree ? { root } : null} />
    ${
      file.total !== null &&
      !isComplete &&
      html`<button type="button" disabled=${file.isLoading} onClick=${file.more}>
      Read more (${formatBytes(file.total - file.read)} are left)
    </button>`
    }
  `;
}
