// The models and directories of a source that has more than one model.

import { html, useEffect } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatCount, shorten } from "../format.js";
import { go, link } from "../state.js";
import { Failure, Loading, useLoad } from "./load.js";

const kMost = 120;

// The directories from the source to the present one, each a link.
function Path({ directory }) {
  const names = directory.split("/").filter(Boolean);
  const pathOf = (depth) => names.slice(0, depth + 1).join("/");
  return html`<nav class="path" aria-label="Directories">
    <a href=${link({ model: null })}>all</a>
    ${names.map(
      (name, depth) => html` / <a key=${depth} href=${link({ model: null, dir: pathOf(depth) })}>${shorten(name, 40)}</a>`,
    )}
  </nav>`;
}

function Entry({ entry }) {
  const isDirectory = entry.kind === "directory";
  const href = isDirectory ? link({ model: null, dir: entry.path }) : link({ model: entry.path });
  return html`<li>
    <a class="name" href=${href} title=${clean(entry.path)}>${shorten(entry.name, kMost)}${isDirectory ? "/" : ""}</a>
  </li>`;
}

function Section({ title, entries }) {
  if (entries.length === 0) return null;
  return html`<section class="panel">
    <h2>${title}</h2>
    <ul class="entries">
      ${entries.map((entry) => html`<${Entry} key=${entry.path} entry=${entry} />`)}
    </ul>
  </section>`;
}

// A directory that has nothing but one model opens that.
const onlyModelOf = ({ entries }) => (entries.length === 1 && entries[0].kind === "model" ? entries[0].path : null);

export function Models({ location }) {
  const directory = location.dir ?? "";
  const { value, error, retry } = useLoad((signal) => getJson("models", { dir: directory }, signal), [directory]);
  const only = value ? onlyModelOf(value) : null;
  useEffect(() => {
    if (only !== null) go({ model: only, dir: null }, { replace: true });
  }, [only]);
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (!value || only !== null) return html`<${Loading} />`;
  const ofKind = (kind) => value.entries.filter((entry) => entry.kind === kind);
  const others = ofKind("file").length;
  const isEmpty = ofKind("model").length + ofKind("directory").length === 0;
  return html`
    <h1>${shorten(value.source, kMost)}</h1>
    ${directory && html`<${Path} directory=${directory} />`}
    <${Section} title="Models" entries=${ofKind("model")} />
    <${Section} title="Directories" entries=${ofKind("directory")} />
    ${isEmpty && html`<p>No supported model in this directory.</p>`}
    ${others > 0 && html`<p class="muted">${formatCount(others)} other ${others === 1 ? "file" : "files"}</p>`}
    ${value.truncated && html`<p class="muted">Only the first ${formatCount(value.entries.length)} entries are listed.</p>`}
  `;
}
