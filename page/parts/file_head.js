// The head of a chosen file: its name, its size, its digest, and the link that downloads it.

import { html } from "../lib.js";
import { clean, shorten } from "../format.js";

// A link of this server only, whatever the response says.
const isOwnPath = (href) => typeof href === "string" && /^\/(?!\/)/.test(href);

export function Download({ file, label }) {
  const href = isOwnPath(file.href) ? file.href : null;
  return href && html`<a href=${href} download aria-label=${`Download ${clean(file.name)}`} title="Download">${label}</a>`;
}

// `children` are the controls at the right.
export function FileHead({ file, size, children }) {
  return html`<div class="toolbar">
      <h2 class="name" title=${clean(file.path)}>${shorten(file.name, 60)}</h2>
      ${size !== null && html`<span class="muted">${size}</span>`}
      <${Download} file=${file} label="Download" />
      ${children}
    </div>
    ${file.digest && html`<p class="digest muted"><code>${clean(file.digest)}</code></p>`}`;
}
