// A small labelled matrix of coloured cells: a number for each tensor of a model, layer by kind or layer by expert.

import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { clean, formatNumber, shorten } from "../format.js";
import { useTheme } from "../theme.js";
import { colourAt, colourOf, cssColour, kNotFinite, placeOf } from "./palette.js";
import { useWidth } from "./size.js";

const kLeastCell = 6;
const kMostCell = 24;
const kLabelHeight = 12;
const kMostLabel = 28;
const kFont = 11;

// The steps of the keys [rows, columns].
const kSteps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function scaleOf({ low, high }) {
  return { low, high, palette: low < 0 ? "blue-orange" : "cividis" };
}

// The sizes of a matrix in `available` pixels; labels of columns are turned, so that they need no width.
function layoutOf({ rows, columns }, available, context) {
  context.font = `${kFont}px sans-serif`;
  const widest = (names) =>
    Math.ceil(Math.max(0, ...names.map((name) => context.measureText(shorten(name, kMostLabel)).width)));
  const left = Math.min(widest(rows) + 8, Math.floor(available * 0.4));
  const top = widest(columns) + 8;
  const width = Math.min(kMostCell, Math.max(kLeastCell, Math.floor((available - left) / columns.length)));
  const height = Math.min(kMostCell, Math.max(kLeastCell, rows.length > 64 ? kLeastCell : 16));
  return { left, top, cell: [width, height], width: left + width * columns.length, height: top + height * rows.length };
}

// Every how many labels one is drawn, so that they do not overlap.
const strideOf = (cell) => Math.ceil(kLabelHeight / cell);

function drawLabels(context, { rows, columns }, { left, top, cell }, ink) {
  context.fillStyle = ink;
  context.font = `${kFont}px sans-serif`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (let row = 0; row < rows.length; row += strideOf(cell[1])) {
    context.fillText(shorten(rows[row], kMostLabel), left - 6, top + (row + 0.5) * cell[1], left - 6);
  }
  context.textAlign = "left";
  for (let column = 0; column < columns.length; column += strideOf(cell[0])) {
    context.save();
    context.translate(left + (column + 0.5) * cell[0], top - 6);
    context.rotate(-Math.PI / 2);
    context.fillText(shorten(columns[column], kMostLabel), 0, 0);
    context.restore();
  }
}

function draw(canvas, data, layout, cursor) {
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const { left, top, cell } = layout;
  const scale = scaleOf(data);
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, layout.width, layout.height);
  drawLabels(context, data, layout, style.getPropertyValue("--ink"));
  const gap = cell[0] > 8 && cell[1] > 8 ? 1 : 0;
  data.values.forEach((line, row) => {
    line.forEach((value, column) => {
      const isTensor = value !== null || data.tensors[row][column] !== null;
      if (!isTensor) return;
      context.fillStyle = cssColour(value === null ? kNotFinite : colourOf(value, scale));
      context.fillRect(left + column * cell[0], top + row * cell[1], cell[0] - gap, cell[1] - gap);
    });
  });
  if (!cursor) return;
  const frame = [left + cursor[1] * cell[0], top + cursor[0] * cell[1], cell[0] - gap, cell[1] - gap];
  for (const [colour, width] of [
    ["#fff", 4],
    ["#000", 2],
  ]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(...frame);
  }
}

function cellText(data, [row, column]) {
  const value = data.values[row][column];
  const text = value !== null ? formatNumber(value) : data.tensors[row][column] === null ? "none" : "no number";
  return `${clean(data.rows[row])}, ${clean(data.columns[column])}: ${text}`;
}

function Table({ data }) {
  return html`<div class="scroll short" tabindex="0" role="region" aria-label=${`Table: ${clean(data.label)}`}>
    <table class="numbers">
      <thead>
        <tr>
          <td></td>
          ${data.columns.map((name) => html`<th scope="col" class="number" title=${clean(name)}>${shorten(name, kMostLabel)}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${data.rows.map(
          (name, row) =>
            html`<tr key=${row}>
              <th scope="row" title=${clean(name)}>${shorten(name, kMostLabel)}</th>
              ${data.values[row].map((value) => html`<td class="number">${formatNumber(value)}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Bar({ data }) {
  const scale = scaleOf(data);
  const stops = Array.from({ length: 17 }, (_, i) => scale.low + (i / 16) * (scale.high - scale.low));
  const colours = stops.map((stop) => cssColour(colourAt(scale.palette, placeOf(stop, scale))));
  return html`<div class="colour-bar">
    <div class="colour-bar-colours" style=${{ background: `linear-gradient(to right, ${colours.join(", ")})` }}></div>
    <div class="colour-bar-numbers">
      <span>${formatNumber(data.low)}</span><span>${clean(data.label)}</span><span>${formatNumber(data.high)}</span>
    </div>
  </div>`;
}

// `data` is a response of `overview` or `experts`; `onChoose(index)` is called with the index of a tensor.
export function Matrix({ data, onChoose }) {
  const theme = useTheme();
  const [frame, available] = useWidth();
  const canvas = useRef(null);
  const [cursor, setCursor] = useState(null);
  const [isOpen, setIsOpen] = useState(false);
  const layout = useMemo(
    () => (available > 0 && canvas.current ? layoutOf(data, available, canvas.current.getContext("2d")) : null),
    [data, available],
  );
  useEffect(() => setCursor(null), [data]);
  useEffect(() => {
    if (layout) draw(canvas.current, data, layout, cursor);
  }, [data, layout, cursor, theme]);

  const cellAt = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - layout.left) / layout.cell[0]);
    const row = Math.floor((event.clientY - box.top - layout.top) / layout.cell[1]);
    return data.values[row]?.[column] === undefined ? null : [row, column];
  };
  const choose = (cell) => {
    const index = cell && data.tensors[cell[0]][cell[1]];
    if (index !== null && index !== undefined) onChoose(index);
  };
  const press = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = kSteps[event.key];
    if (!step && event.key !== "Enter") return;
    event.preventDefault();
    if (event.key === "Enter") choose(cursor);
    else if (!cursor) setCursor([0, 0]);
    else {
      const inside = (place, count) => Math.min(count - 1, Math.max(0, place));
      setCursor([inside(cursor[0] + step[0], data.rows.length), inside(cursor[1] + step[1], data.columns.length)]);
    }
  };
  const { width, height } = layout ?? { width: 1, height: 1 };
  const label = `${clean(data.label)} of ${data.rows.length} rows and ${data.columns.length} columns, from ${formatNumber(data.low)} to ${formatNumber(data.high)}`;
  return html`<div class="matrix" ref=${frame}>
    <div class="matrix-picture">
      <canvas
        ref=${canvas}
        tabindex="0"
        role="application"
        aria-roledescription="matrix"
        aria-label=${label}
        width=${Math.round(width * devicePixelRatio)}
        height=${Math.round(height * devicePixelRatio)}
        style=${{ width: `${width}px`, height: `${height}px` }}
        onKeyDown=${press}
        onPointerMove=${(event) => layout && setCursor(cellAt(event))}
        onPointerLeave=${() => setCursor(null)}
        onClick=${(event) => layout && choose(cellAt(event))}
      ></canvas>
    </div>
    <p class="readout-line" role="status">
      ${cursor ? cellText(data, cursor) : html`<span class="muted">Arrow keys move, Enter opens the tensor.</span>`}
    </p>
    <${Bar} data=${data} />
    <details onToggle=${(event) => setIsOpen(event.target.open)}>
      <summary>Numbers as a table</summary>
      ${isOpen && html`<${Table} data=${data} />`}
    </details>
  </div>`;
}
