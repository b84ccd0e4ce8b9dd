// The lists of a comparison besides its table: metadata, missing and added tensors, layers, files, and what could not be read.

import { html } from "../lib.js";
import { clean, formatBytes, formatCount, formatNumber, formatPercent, formatShape, shorten } from "../format.js";

// A list shows at most this many rows; the complete one is printed by `weightfs diff`.
const kMost = 500;
const kMostText = 200;

function List({ title, head, rows }) {
  if (rows.length === 0) return null;
  return html`<details class="panel">
    <summary>${title}: ${formatCount(rows.length)}</summary>
    <div class="scroll short" tabindex="0" role="region" aria-label=${title}>
      <table>
        <thead>
          <tr>
            ${head.map((name) => html`<th scope="col">${name}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.slice(0, kMost).map(
            (row, i) =>
              html`<tr key=${i}>
                ${row.map((cell) => html`<td class="change-value">${cell}</td>`)}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    ${rows.length > kMost && html`<p class="muted">The first ${formatCount(kMost)} of ${formatCount(rows.length)}.</p>`}
  </details>`;
}

const nameOf = (name) => html`<span class="name" title=${clean(name)}>${shorten(name, 120)}</span>`;

function valueText(value) {
  if (value === undefined) return html`<span class="muted">none</span>`;
  return shorten(typeof value === "string" ? value : JSON.stringify(value), kMostText);
}

const fileText = (file) => (file === undefined ? valueText(undefined) : `${clean(file.type)}, ${formatBytes(file.size)}`);

const tensorRows = (tensors) => tensors.map(({ name, dtype, shape }) => [nameOf(name), clean(dtype), formatShape(shape)]);

export function CompareLists({ found }) {
  const { metadata, missing, added, layers = [], files } = found;
  const fields = metadata.map(({ field, a, b }) => [nameOf(field), valueText(a), valueText(b)]);
  const layerRows = layers.map(({ name, tensors, stat }) => [
    nameOf(name),
    formatCount(tensors),
    formatNumber(stat.snr_db),
    formatPercent(stat.relative_error),
    formatNumber(stat.max),
  ]);
  const kTensorHead = ["name", "type", "shape"];
  return html`
    <${List}
      title="Layers, the worst first"
      head=${["layer", "tensors that differ", "SNR in dB", "relative error", "largest difference"]}
      rows=${layerRows}
    />
    <${List} title="Only in A" head=${kTensorHead} rows=${tensorRows(missing)} />
    <${List} title="Only in B" head=${kTensorHead} rows=${tensorRows(added)} />
    <${List} title="Metadata" head=${["field", "A", "B"]} rows=${fields} />
    <${List}
      title="Files"
      head=${["name", "A", "B"]}
      rows=${files.map(({ name, a, b }) => [nameOf(name), fileText(a), fileText(b)])}
    />
  `;
}

export function Unreadable({ unreadable }) {
  if (unreadable.length === 0) return null;
  const text = ({ source, name, error }) =>
    [source?.toUpperCase(), name && shorten(name, 80), error && clean(error)].filter(Boolean).join(": ");
  return html`<div class="notice warning">
    <p>${formatCount(unreadable.length)} could not be compared:</p>
    <ul>
      ${unreadable.slice(0, 20).map((one, i) => html`<li key=${i}>${text(one)}</li>`)}
    </ul>
  </div>`;
}
