// What a search has found in JSON: each value with its keys and indices, as the tree has them.

import { html, useEffect, useRef } from "../lib.js";
import { clean, formatCount, shorten } from "../format.js";
import { findInJson, kMostFound } from "./json_hits.js";
import { kMostText, writtenOf } from "./json_tree.js";
import { hitsOf } from "./lines.js";
import { Failure, Loading, useLoad } from "./load.js";

const kTokenLists = /(^|[/.])(tokens|scores|token_type)(\.json)?$/;

// The key of an object, or the place in a list: in a list of a vocabulary that is the id of a token.
function labelOf(path, depth, file) {
  const key = path[depth];
  if (typeof key !== "number") return shorten(key, 120);
  const list = depth === 0 ? file : String(path[depth - 1]);
  return kTokenLists.test(list) ? `token id ${key}` : String(key);
}

// A text with what was searched for marked.
function Marked({ text, query }) {
  const { starts, ends } = hitsOf(text, query);
  const pieces = starts.map(
    (start, i) => html`${text.slice(i === 0 ? 0 : ends[i - 1], start)}<mark>${text.slice(start, ends[i])}</mark>`,
  );
  return html`${pieces}${text.slice(ends.at(-1) ?? 0)}`;
}

function Found({ text, file, query, found: { path, node }, isCurrent }) {
  const line = useRef(null);
  useEffect(() => {
    if (isCurrent) line.current.scrollIntoView({ block: "nearest" });
  }, [isCurrent]);
  const value = node.end === undefined ? `${node.kind} …` : shorten(writtenOf(text, node), kMostText);
  return html`<li ref=${line} class="json-leaf" aria-current=${isCurrent ? "true" : undefined}>
    ${path.map(
      (key, depth) => html`<span key=${depth} class=${typeof key === "number" ? "json-index" : "json-key"}
          ><${Marked} text=${labelOf(path, depth, file)} query=${typeof key === "number" ? "" : clean(query)} /></span
        >${depth + 1 < path.length ? " › " : ": "}`,
    )}
    <span class=${`json-${node.kind}`}><${Marked} text=${value} query=${clean(query)} /></span>
  </li>`;
}

// `file` is the path of the file, `hits` that of hitsOf(), of which the number `hit` is shown.
export function JsonFound({ text, file, query, hits, hit }) {
  const { value, error } = useLoad(
    async (signal) => ({ hits, found: await findInJson(text, hits.starts, signal) }),
    [text, hits],
  );
  if (error) return html`<${Failure} error=${error} />`;
  if (value?.hits !== hits) return html`<${Loading} text="Searching …" />`;
  const { found } = value;
  const isCurrent = ({ first, count }) => hit >= first && hit < first + count;
  return html`<div class="json" role="region" aria-label="Found in JSON" tabindex="0">
    <ul class="json-found">
      ${found.map((each) => html`<${Found} key=${each.node.start} text=${text} file=${file} query=${query} found=${each} isCurrent=${isCurrent(each)} />`)}
    </ul>
    ${found.length === kMostFound && html`<p class="muted">The first ${formatCount(kMostFound)} values are listed.</p>`}
  </div>`;
}
