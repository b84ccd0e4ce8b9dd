// The bytes of each layer by kind of tensor: a column for each layer, and the same numbers as a table.

import { html } from "../lib.js";
import { clean, formatBytes, formatPercent, shorten } from "../format.js";

const kHeight = 100;
const kGap = 0.15;
// Columns of a model with few layers do not become broad areas.
const kMostWidth = 48;
const kLeastTotal = 320;

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

// The kinds that have bytes at all, each with its place in the response (which is also its colour) and its bytes.
function kindsWithBytes({ layers, kinds }) {
  return kinds
    .map((name, place) => ({ name, place, bytes: sum(layers.map((layer) => layer.kinds[place] ?? 0)) }))
    .filter((kind) => kind.bytes > 0);
}

function titleOf(layer, kinds) {
  const parts = kinds
    .filter((kind) => layer.kinds[kind.place] > 0)
    .map((kind) => `${kind.name} ${formatBytes(layer.kinds[kind.place])}`);
  return clean(`${layer.name}: ${formatBytes(layer.bytes)} (${parts.join(", ")})`);
}

// One layer: parts of the column from the bottom up.
function Column({ layer, column, kinds, scale }) {
  let top = kHeight;
  return html`<g>
    <title>${titleOf(layer, kinds)}</title>
    <rect class="column" x=${column} y="0" width="1" height=${kHeight} />
    ${kinds.map((kind) => {
      const height = (layer.kinds[kind.place] ?? 0) * scale;
      top -= height;
      return html`<rect
        key=${kind.place}
        class=${`kind-${kind.place % 6}`}
        x=${column + kGap / 2}
        y=${top}
        width=${1 - kGap}
        height=${height}
      />`;
    })}
  </g>`;
}

function Legend({ kinds, total }) {
  return html`<ul class="legend">
    ${kinds.map(
      (kind) => html`<li key=${kind.place}>
        <span class=${`swatch kind-${kind.place % 6}`}></span>
        ${clean(kind.name)} <span class="muted">${formatBytes(kind.bytes)}, ${formatPercent(kind.bytes / total)}</span>
      </li>`,
    )}
  </ul>`;
}

function Table({ layers, kinds }) {
  return html`<details>
    <summary>As a table</summary>
    <div class="scroll short" tabindex="0" role="region" aria-label="Bytes by layer and kind">
      <table>
        <thead>
          <tr>
            <th scope="col">layer</th>
            ${kinds.map((kind) => html`<th key=${kind.place} scope="col" class="number">${clean(kind.name)}</th>`)}
            <th scope="col" class="number">total</th>
          </tr>
        </thead>
        <tbody>
          ${layers.map(
            (layer, row) => html`<tr key=${row}>
              <th scope="row" class="name">${shorten(layer.name, 40)}</th>
              ${kinds.map((kind) => html`<td key=${kind.place} class="number">${formatBytes(layer.kinds[kind.place])}</td>`)}
              <td class="number">${formatBytes(layer.bytes)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </details>`;
}

export function Bars({ bars }) {
  const kinds = kindsWithBytes(bars);
  const { layers } = bars;
  const largest = layers.reduce((most, layer) => (layer.bytes > most.bytes ? layer : most), layers[0]);
  const total = sum(kinds.map((kind) => kind.bytes));
  const label = `Bytes of ${layers.length} layers by kind; the largest is ${clean(largest.name)} with ${formatBytes(largest.bytes)}`;
  const width = { maxWidth: `${Math.max(kLeastTotal, layers.length * kMostWidth)}px` };
  return html`<section class="panel bars">
    <h2>Bytes by layer and kind</h2>
    <svg role="img" aria-label=${label} style=${width} viewBox=${`0 0 ${layers.length} ${kHeight}`} preserveAspectRatio="none">
      ${layers.map(
        (layer, column) =>
          html`<${Column} key=${column} layer=${layer} column=${column} kinds=${kinds} scale=${kHeight / largest.bytes} />`,
      )}
    </svg>
    <p class="muted ends" style=${width}>
      <span>${shorten(layers[0].name, 24)}</span>
      <span>${shorten(layers.at(-1).name, 24)}</span>
    </p>
    <p class="muted">Largest: ${shorten(largest.name, 40)}, ${formatBytes(largest.bytes)}</p>
    <${Legend} kinds=${kinds} total=${total} />
    <${Table} layers=${layers} kinds=${kinds} />
  </section>`;
}
