// The files of a model that a person reads: a list, and the chosen one as text.

import { html } from "../lib.js";
import { clean, formatBytes, shorten } from "../format.js";
import { File } from "../parts/file.js";
import { link } from "../state.js";

function Entry({ file, isChosen }) {
  return html`<li>
    <a
      class="name"
      href=${link({ view: "files", file: file.path })}
      title=${clean(file.path)}
      aria-current=${isChosen ? "true" : undefined}
      >${shorten(file.path, 36)}</a
    >
    ${file.bytes !== null && html`<span class="muted">${formatBytes(file.bytes)}</span>`}
  </li>`;
}

export default function FilesView({ location, model }) {
  const chosen = location.file ?? model.files[0]?.path;
  return html`
    <h1 class="hidden-text">Files</h1>
    <nav class="file-list" aria-label="Files">
      <ul class="entries">
        ${model.files.map((file) => html`<${Entry} key=${file.path} file=${file} isChosen=${file.path === chosen} />`)}
      </ul>
    </nav>
    <section class="file" aria-label="Chosen file">
      ${
        chosen === undefined
          ? html`<p class="muted">This model has no texts.</p>`
          : html`<${File} key=${chosen} model=${model} path=${chosen} />`
      }
    </section>
  `;
}
