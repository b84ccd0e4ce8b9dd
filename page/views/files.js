// The files of a model: those of its container first, then what weightfs makes of them; the chosen one as text.

import { html, useMemo, useState } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatBytes, formatCount, shorten } from "../format.js";
import { File } from "../parts/file.js";
import { Download, FileHead } from "../parts/file_head.js";
import { Failure, Loading, useLoad } from "../parts/load.js";
import { link } from "../state.js";

// More files than this have a search.
const kManyFiles = 30;

function Entry({ file, isChosen }) {
  return html`<li>
    <a
      class="name"
      href=${link({ view: "files", file: file.path })}
      title=${clean(file.path)}
      aria-current=${isChosen ? "true" : undefined}
      >${shorten(file.name, 80)}</a
    >
    <span class="muted number">${file.bytes === null ? "" : formatBytes(file.bytes)}</span>
    <${Download} file=${file} label="↓" />
  </li>`;
}

function Group({ title, files, chosen }) {
  if (files.length === 0) return null;
  return html`<section>
    <h2>${title}</h2>
    <ul class="entries">
      ${files.map((file) => html`<${Entry} key=${file.path} file=${file} isChosen=${file.path === chosen} />`)}
    </ul>
  </section>`;
}

// The names that have the search. The list of a response is cut, so that of many files the server is asked.
function useFiles(model, query) {
  const { value, error, retry } = useLoad(
    (signal) => getJson("files", { model: model.path, q: query }, signal),
    [model.path, model.v, query],
  );
  // What it takes to convert a model is known only when it has been looked at, which may take a while.
  const views = useLoad((signal) => getJson("files", { model: model.path, views: 1 }, signal), [model.path, model.v]);
  return { value, error, retry, views: views.value?.files ?? [] };
}

function List({ model, all, chosen, query, onSearch, isMany }) {
  const { value, views } = all;
  const own = value.files.filter((file) => file.own);
  const made = value.files.filter((file) => !file.own);
  const hasQuery = (file) => file.name.toLowerCase().includes(query.toLowerCase());
  return html`<nav class="file-list" aria-label="Files">
    ${
      isMany &&
      html`<input
        type="search"
        placeholder="Search files"
        aria-label="Search files"
        autocomplete="off"
        spellcheck=${false}
        value=${query}
        onInput=${(event) => onSearch(event.target.value)}
      />`
    }
    <${Group} title="Files of the model" files=${own} chosen=${chosen} />
    ${value.total > value.files.length && html`<p class="muted">${formatCount(value.total - value.files.length)} more; search for one.</p>`}
    <${Group} title="About the model" files=${made} chosen=${chosen} />
    <${Group} title="The model in other formats" files=${views.filter(hasQuery)} chosen=${chosen} />
    ${value.total === 0 && html`<p class="muted">No file has this name.</p>`}
  </nav>`;
}

// What is shown of a file that is not a text.
function Other({ file }) {
  const text =
    file.role === "weights"
      ? html`Weights. <a href=${link({ view: "tensors" })}>Tensors</a> shows what is in the file.`
      : "This is not a text. It can be downloaded.";
  return html`<${FileHead} file=${file} size=${file.bytes === null ? null : formatBytes(file.bytes)} />
    <p>${text}</p>`;
}

// A text of the container, or what weightfs knows of the model.
const firstOf = (files) =>
  files.find((file) => file.own && file.role === "text") ?? files.find((file) => file.path === "metadata.json") ?? files[0];

export default function FilesView({ location, model }) {
  const [query, setQuery] = useState("");
  const all = useFiles(model, query);
  const [first, setFirst] = useState(null);
  const files = all.value?.files ?? [];
  if (first === null && all.value && query === "")
    setFirst({ file: firstOf(files), isMany: all.value.total > kManyFiles, files });
  const known = first?.files ?? [];
  const paths = useMemo(() => new Map(known.filter((file) => file.own).map((file) => [file.name, file.path])), [first]);
  if (all.error && !first) return html`<h1 class="hidden-text">Files</h1><${Failure} error=${all.error} retry=${all.retry} />`;
  if (!first) return html`<h1 class="hidden-text">Files</h1><${Loading} />`;
  const chosen = location.file ?? first.file?.path;
  const listed = [...files, ...known, ...all.views].find((file) => file.path === chosen) ?? {
    path: chosen,
    name: chosen,
    role: "text",
  };
  return html`
    <h1 class="hidden-text">Files</h1>
    <${List} model=${model} all=${all} chosen=${chosen} query=${query} onSearch=${setQuery} isMany=${first.isMany} />
    <section class="file" aria-label="Chosen file">
      ${all.error && html`<${Failure} error=${all.error} retry=${all.retry} />`}
      ${
        chosen === undefined
          ? html`<p class="muted">This model has no files.</p>`
          : listed.role === "text"
            ? html`<${File} key=${chosen} model=${model} file=${listed} paths=${paths} />`
            : html`<${Other} file=${listed} />`
      }
    </section>
  `;
}
