// What a heat map says in text: its colour bar, the cell below the cursor, notes, and a table instead of the picture.

import { html, useEffect, useRef, useState } from "../lib.js";
import { formatBytes, formatCount, formatNumber } from "../format.js";
import { colourAt, placeOf } from "./palette.js";
import { coarseTable } from "./plane.js";

// "rows 3" or "rows 0–511": a range of whole indices, as people count them here, with its last.
export function rangeText(name, [first, end]) {
  if (end - first === 1) return `${name} ${formatCount(first)}`;
  return `${name}s ${formatCount(first)}–${formatCount(end - 1)}`;
}

// The summary of a picture in a sentence.
export function summaryOf({ grid, scale, notFinite, window }, name, what) {
  if (!grid || !scale) return `Heat map of ${name}, loading`;
  const parts = [
    `Heat map of ${name}: ${rangeText("row", window.slice(0, 2))}, ${rangeText("column", window.slice(2))}`,
    `${what}, from ${formatNumber(grid.min)} to ${formatNumber(grid.max)}`,
    `colours from ${formatNumber(scale.low)} to ${formatNumber(scale.high)}`,
  ];
  if (notFinite > 0) parts.push(`${formatCount(notFinite)} cells with NaN or infinities`);
  return parts.join("; ");
}

const kBarLength = 256;
// A bar that is less high has numbers at its ends only.
const kThreeNumbers = 64;

// The colours of a scale with the numbers at its ends and in its middle: from below upwards if `height` is given, else to the right.
export function ColourBar({ scale, height = null }) {
  const canvas = useRef(null);
  const isUpright = height !== null;
  useEffect(() => {
    const context = canvas.current.getContext("2d");
    for (let place = 0; place < kBarLength; place += 1) {
      const value = scale.low + (place / (kBarLength - 1)) * (scale.high - scale.low);
      context.fillStyle = `rgb(${colourAt(scale.palette, placeOf(value, scale)).join(" ")})`;
      if (isUpright) context.fillRect(0, kBarLength - 1 - place, 1, 1);
      else context.fillRect(place, 0, 1, 1);
    }
  }, [scale, isUpright]);
  const label = `Colour bar from ${formatNumber(scale.low)} to ${formatNumber(scale.high)}`;
  const middle = !isUpright || height >= kThreeNumbers ? [(scale.low + scale.high) / 2] : [];
  const numbers = [scale.low, ...middle, scale.high];
  return html`<div class=${isUpright ? "colour-bar upright" : "colour-bar"} style=${isUpright ? { height: `${height}px` } : {}}>
    <canvas
      ref=${canvas}
      width=${isUpright ? 1 : kBarLength}
      height=${isUpright ? kBarLength : 1}
      role="img"
      aria-label=${label}
    ></canvas>
    <div class="colour-bar-numbers">
      ${(isUpright ? numbers.toReversed() : numbers).map((number) => html`<span key=${number}>${formatNumber(number)}</span>`)}
    </div>
  </div>`;
}

function cellText({ rows, columns, value, cut, isExact }, what) {
  const count = (rows[1] - rows[0]) * (columns[1] - columns[0]);
  const number = Number.isNaN(value) && !isExact ? "NaN or infinite" : formatNumber(value);
  const bound = { above: "at least ", below: "at most " }[cut] ?? (isExact || Number.isNaN(value) ? "" : "about ");
  const of = count > 1 ? ` (${what} of ${formatCount(count)} elements)` : "";
  return `${rangeText("row", rows)}, ${rangeText("column", columns)}: ${bound}${number}${of}`;
}

// The cell below the cursor, or how to choose one.
export function Readout({ cell, what }) {
  const hint =
    "Wheel, pinch or + − zoom; drag or arrow keys move; Shift and drag zooms to a rectangle; Shift and arrow keys choose a cell.";
  return html`<p class=${`readout ${cell ? "" : "muted"}`} role="status">${cell ? cellText(cell, what) : hint}</p>`;
}

// What a person must know about the picture: samples, cells without numbers, numbers beyond the limits.
export function Notes({ status, onReadAll }) {
  const { grid, scale, notFinite, partBytes, isBusy } = status;
  if (!grid) return null;
  const isCut = scale && (grid.max > scale.high || grid.min < scale.low);
  return html`<div class="notes">
    ${grid.sample && html`<span class="tag">sampled</span>`} ${isBusy && html`<span class="muted">Reading …</span>`}
    ${
      partBytes !== null &&
      html`<button type="button" onClick=${onReadAll}>Read all elements (${formatBytes(partBytes)})</button>`
    }
    ${
      notFinite > 0 &&
      html`<span
        ><span class="not-finite-swatch"></span> ${formatCount(notFinite)} ${notFinite === 1 ? "cell" : "cells"} with
        NaN or infinities</span
      >`
    }
    ${isCut && html`<span class="muted">Cells from ${formatNumber(grid.min)} to ${formatNumber(grid.max)}; those beyond the limits have the colours of the ends.</span>`}
  </div>`;
}

function Table({ rows, columns, values, caption }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}>
    <table class="numbers">
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          <td></td>
          ${columns.map((range) => html`<th scope="col" class="number">${rangeText("column", range)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${values.map(
          (line, y) =>
            html`<tr key=${y}>
              <th scope="row">${rangeText("row", rows[y])}</th>
              ${line.map((value) => html`<td class="number">${Number.isNaN(value) ? "NaN" : formatNumber(value)}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

// The numbers of the visible elements, or else a coarse table of the picture.
export function HeatmapTable({ status, metric, what }) {
  const [isOpen, setIsOpen] = useState(false);
  const { plane, values } = status;
  const single = (first, count) => Array.from({ length: count }, (_, i) => [first + i, first + i + 1]);
  const table = () => {
    if (!values) return { ...coarseTable(plane, metric), caption: `Coarse table: ${what}` };
    const [top, bottom, left, right] = values.window;
    return {
      rows: single(top, bottom - top),
      columns: single(left, right - left),
      values: values.rows,
      caption: "Elements",
    };
  };
  return html`<details onToggle=${(event) => setIsOpen(event.target.open)}>
    <summary>Numbers as a table</summary>
    ${isOpen && plane && html`<${Table} ...${table()} />`}
  </details>`;
}
