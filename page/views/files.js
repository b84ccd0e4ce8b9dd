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

function Entries({ files, chosen }) {
  return html`<ul class="entries">
    ${files.map((file) => html`<${Entry} key=${file.path} file=${file} isChosen=${file.path === chosen} />`)}
  </ul>`;
}

function Group({ title, files, chosen }) {
  if (files.length === 0) return null;
  return html`<section>
    <h2>${title}</h2>
    <${Entries} files=${files} chosen=${chosen} />
  </section>`;
}

// The files of the model in other formats: what it takes to convert a model is looked at when a person wants to know.
function Views({ model, chosen, onFiles }) {
  const [isOpen, setIsOpen] = useState(chosen?.startsWith("views/"));
  const load = async (signal) => {
    if (!isOpen) return undefined;
    const { files } = await getJson("files", { model: model.path, views: 1 }, signal);
    onFiles(files);
    return files;
  };
  const { value, error, retry } = useLoad(load, [model.path, model.v, isOpen]);
  return html`<details open=${isOpen} onToggle=${(event) => setIsOpen(event.target.open)}>
    <summary>The model in other formats</summary>
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${isOpen && !value && !error && html`<${Loading} />`}
    ${value && html`<${Entries} files=${value} chosen=${chosen} />`}
  </details>`;
}

function Search({ query, onSearch }) {
  return html`<input
    type="search"
    placeholder="Search files"
    aria-label="Search files"
    autocomplete="off"
    spellcheck=${false}
    value=${query}
    onInput=${(event) => onSearch(event.target.value)}
  />`;
}

// `list` is a response of the endpoint `files`.
function List({ list, chosen, children }) {
  const { files, total } = list;
  return html`<nav class="file-list" aria-label="Files">
    ${children[0]}
    <${Group} title="Files of the model" files=${files.filter((file) => file.own)} chosen=${chosen} />
    ${total > files.length && html`<p class="muted">${formatCount(total - files.length)} more; search for one.</p>`}
    <${Group} title="About the model" files=${files.filter((file) => !file.own)} chosen=${chosen} />
    ${total === 0 && html`<p class="muted">No file has this name.</p>`}
    ${children[1]}
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
  const [views, setViews] = useState([]);
  const load = async (signal) => ({ query, ...(await getJson("files", { model: model.path, q: query }, signal)) });
  const { value, error, retry } = useLoad(load, [model.path, model.v, query]);
  const [all, setAll] = useState(null);
  if (all === null && value?.query === "") setAll(value);
  const paths = useMemo(
    () => new Map((all?.files ?? []).filter((file) => file.own).map((file) => [file.name, file.path])),
    [all],
  );
  const title = html`<h1 class="hidden-text">Files</h1>`;
  if (error && !all) return html`${title}<${Failure} error=${error} retry=${retry} />`;
  if (!all) return html`${title}<${Loading} />`;
  const chosen = location.file ?? firstOf(all.files)?.path;
  const known = [...value.files, ...all.files, ...views].find((file) => file.path === chosen);
  const file = known ?? { path: chosen, name: chosen, role: "text" };
  return html`
    ${title}
    <${List} list=${value} chosen=${chosen}>
      ${all.total > kManyFiles && html`<${Search} query=${query} onSearch=${setQuery} />`}
      <${Views} model=${model} chosen=${chosen} onFiles=${setViews} />
    <//>
    <section class="file" aria-label="Chosen file">
      ${error && html`<${Failure} error=${error} retry=${retry} />`}
      ${chosen === undefined && html`<p class="muted">This model has no files.</p>`}
      ${chosen !== undefined && file.role === "text" && html`<${File} key=${chosen} model=${model} file=${file} paths=${paths} />`}
      ${chosen !== undefined && file.role !== "text" && html`<${Other} file=${file} />`}
    </section>
  `;
}
