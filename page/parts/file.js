// One file of a model as text: a tree for JSON, a formatted text for Markdown, lines with numbers for all others, and a search in each.

import { html, useEffect, useRef, useState } from "../lib.js";
import { fileHref, readFile } from "../api.js";
import { clean, formatBytes, formatCount } from "../format.js";
import { useKeys } from "../keys.js";
import { FileHead } from "./file_head.js";
import { JsonFound } from "./json_found.js";
import { scanRoot } from "./json_scan.js";
import { JsonTree } from "./json_tree.js";
import { hitsOf } from "./lines.js";
import { Failure, Loading, useLoad } from "./load.js";
import { Text } from "./text.js";

const kPart = 1 << 20;
const kJsonPart = 4 << 20;
// A larger JSON file is shown as text, part by part.
const kMostJson = 64 << 20;
// A larger Markdown file is shown as text.
const kMostMarkdown = 512 << 10;
const kDebounce = 80;
const kNoHits = { starts: [], ends: [], isCut: false };

// How a file is shown unless its text is wanted.
function formOf(path) {
  if (/\.json$/i.test(path)) return "tree";
  return /(\.md|\.markdown|(^|\/)readme)$/i.test(path) ? "formatted" : "text";
}

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

// The parser of Markdown is loaded when it is first needed.
function Formatted({ text, paths }) {
  const { value, error, retry } = useLoad(async () => (await import("../markdown/view.js")).default, []);
  if (error)
    return html`<${Failure} error="This part of the page could not be loaded; the server may have ended." retry=${retry} />`;
  return value ? html`<${value} text=${text} paths=${paths} />` : html`<${Loading} />`;
}

// `form` is that of formOf(); `root` is undefined until a JSON text is read.
function Content({ path, file, search, form, root, paths }) {
  if (file.total === null || (form === "tree" && !root)) return file.error ? null : html`<${Loading} />`;
  if (file.total === 0) return html`<p class="muted">The file is empty.</p>`;
  const { hits, hit, query } = search;
  if (form === "tree" && query !== "")
    return html`<${JsonFound} text=${file.text} file=${path} query=${query} hits=${hits} hit=${hit} />`;
  if (form === "tree") return html`<${JsonTree} text=${file.text} root=${root} />`;
  if (form === "formatted" && query === "") return html`<${Formatted} text=${file.text} paths=${paths} />`;
  return html`<${Text} label=${`Text of ${clean(path)}`} text=${file.text} hits=${hits} hit=${hit} />`;
}

// `file`: an element of the endpoint `files`; only the path is known if it is not listed. `paths`: the files that a text may link to.
export function File({ model, file: listed, paths }) {
  const { path } = listed;
  const form = formOf(path);
  const file = useText(fileHref(model.path, path), form === "tree");
  const isComplete = file.total !== null && file.read >= file.total;
  const search = useSearch(file.text);
  const [isFormWanted, setIsFormWanted] = useState(true);
  const scan = useLoad(
    async (signal) => (form === "tree" && isComplete && file.total > 0 ? scanRoot(file.text, signal) : null),
    [form, isComplete],
  );
  const most = { tree: kMostJson, formatted: kMostMarkdown, text: 0 }[form];
  const canBeFormed = file.total > 0 && file.total <= most && !scan.error;
  const sizeText = isComplete ? formatBytes(file.total) : `${formatBytes(file.read)} of ${formatBytes(file.total)}`;
  return html`
    <${FileHead} file=${listed} size=${file.total === null ? null : sizeText}>
      <span class="grow"></span>
      ${
        canBeFormed &&
        html`<button type="button" aria-pressed=${isFormWanted} onClick=${() => setIsFormWanted(!isFormWanted)}>
          ${form === "tree" ? "Tree" : "Formatted"}
        </button>`
      }
      <${Search} search=${search} />
    <//>
    ${scan.error && html`<p class="notice warning">Shown as text: ${scan.error.message}.</p>`}
    ${file.error && html`<${Failure} error=${file.error} retry=${file.retry} />`}
    <${Content}
      path=${path}
      file=${file}
      search=${search}
      form=${canBeFormed && isFormWanted ? form : file.total === null ? form : "text"}
      root=${scan.value ?? undefined}
      paths=${paths}
    />
    ${
      file.total !== null &&
      !isComplete &&
      html`<button type="button" disabled=${file.isLoading} onClick=${file.more}>
      Read more (${formatBytes(file.total - file.read)} are left)
    </button>`
    }
  `;
}
