// A small labelled matrix of coloured cells, each a link: a number or a type for each tensor of a model, layer by kind or by expert.

import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { clean, shorten } from "../format.js";
import { follow } from "../state.js";
import { useTheme } from "../theme.js";
import { cssColour, inkOn } from "./palette.js";
import { useWidth } from "./size.js";

const kLeastCell = 6;
const kMostCell = 160;
const kLabelHeight = 12;
const kMostLabel = 36;
const kFont = "11px sans-serif";
const kTextHeight = 14;

// The steps of the keys [rows, columns].
const kSteps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const heightOf = (rows) => (rows <= 48 ? 18 : rows <= 96 ? kTextHeight : kLeastCell);

// The sizes of a matrix in `available` pixels. Labels of columns are turned if they are wider than the cells.
function layoutOf({ rows, columns, prefix }, available, context) {
  context.font = kFont;
  const widthOf = (name) => Math.ceil(context.measureText(shorten(name, kMostLabel)).width);
  const widest = (names) => Math.max(0, ...names.map(widthOf));
  const left = Math.min(Math.max(widest(rows), widthOf(prefix)) + 10, Math.floor(available * 0.35));
  const label = widest(columns) + 8;
  const width = Math.min(kMostCell, Math.max(kLeastCell, Math.floor((available - left) / columns.length)));
  const isTurned = label > width;
  const top = isTurned ? label : kLabelHeight + 6;
  const height = heightOf(rows.length);
  return {
    left,
    top,
    isTurned,
    cell: [width, height],
    width: left + width * columns.length,
    height: top + height * rows.length,
  };
}

// Every how many labels one is drawn, so that they do not overlap.
const strideOf = (cell) => Math.ceil(kLabelHeight / cell);

function drawLabels(context, { rows, columns, prefix }, { left, top, isTurned, cell }, ink) {
  context.fillStyle = ink;
  context.font = kFont;
  context.textBaseline = "middle";
  context.textAlign = "right";
  context.fillText(shorten(prefix, kMostLabel), left - 6, top - 8, left - 6);
  for (let row = 0; row < rows.length; row += strideOf(cell[1])) {
    context.fillText(shorten(rows[row], kMostLabel), left - 6, top + (row + 0.5) * cell[1], left - 6);
  }
  context.textAlign = isTurned ? "left" : "center";
  for (let column = 0; column < columns.length; column += isTurned ? strideOf(cell[0]) : 1) {
    context.save();
    context.translate(left + (column + 0.5) * cell[0], top - 8);
    if (isTurned) context.rotate(-Math.PI / 2);
    context.fillText(shorten(columns[column], kMostLabel), 0, 0);
    context.restore();
  }
}

// The cells, each with its text where that fits. `paint(value, row, column, style)` is a colour [red, green, blue], or null for none.
function draw(canvas, { data, paint, textOf }, layout) {
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const ink = style.getPropertyValue("--ink");
  const { left, top, cell } = layout;
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, layout.width, layout.height);
  drawLabels(context, data, layout, ink);
  const gap = cell[0] > 8 && cell[1] > 8 ? 1 : 0;
  context.textAlign = "center";
  const fits = new Map();
  const isNarrower = (text) => {
    if (!fits.has(text)) fits.set(text, context.measureText(text).width < cell[0] - 6);
    return fits.get(text);
  };
  data.values.forEach((line, row) => {
    line.forEach((value, column) => {
      if (data.counts[row][column] === 0) return;
      const colour = paint(value, row, column, style);
      const [x, y] = [left + column * cell[0], top + row * cell[1]];
      context.fillStyle = colour ? cssColour(colour) : style.getPropertyValue("--surface-strong");
      context.fillRect(x, y, cell[0] - gap, cell[1] - gap);
      if (cell[1] < kTextHeight) return;
      const text = textOf(value);
      if (!isNarrower(text)) return;
      context.fillStyle = colour ? inkOn(colour) : ink;
      context.fillText(text, x + (cell[0] - gap) / 2, y + (cell[1] - gap) / 2 + 0.5);
    });
  });
}

const isCell = ({ counts }, [row, column]) => counts[row]?.[column] > 0;

function firstCell({ counts }) {
  for (let row = 0; row < counts.length; row += 1) {
    const column = counts[row].findIndex((count) => count > 0);
    if (column >= 0) return [row, column];
  }
  return null;
}

// The next cell in the direction of a step; the present one if there is none.
function cellAfter(data, cell, step) {
  let [row, column] = cell;
  do {
    row += step[0];
    column += step[1];
    if (isCell(data, [row, column])) return [row, column];
  } while (data.counts[row]?.[column] !== undefined);
  return cell;
}

// What a cell is and what it has, for its link and the line below.
export function cellText({ data, textOf }, [row, column]) {
  const count = data.counts[row][column];
  const several = count > 1 ? ` (${count} tensors)` : "";
  return `${shorten(data.names[row], 120)} ${shorten(data.columns[column], 120)}: ${textOf(data.values[row][column])}${several}`;
}

function Table({ data, textOf, label }) {
  return html`<div class="scroll short" tabindex="0" role="region" aria-label=${`Table: ${label}`}>
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
              <th scope="row" title=${clean(data.names[row])}>${shorten(name, kMostLabel)}</th>
              ${data.values[row].map(
                (value, column) => html`<td class="number">${data.counts[row][column] > 0 ? textOf(value) : ""}</td>`,
              )}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

// `shown`: {label, data: {rows, names, prefix, columns, values, counts}, paint, textOf, hrefOf}; see overview.js and shades.js.
export function Matrix({ shown, legend }) {
  const { data, label, hrefOf } = shown;
  const theme = useTheme();
  const [frame, available] = useWidth();
  const canvas = useRef(null);
  const [chosen, setChosen] = useState(null);
  const [isActive, setIsActive] = useState(false);
  const [isOpen, setIsOpen] = useState(false);
  const layout = useMemo(
    () => (available > 0 && canvas.current ? layoutOf(data, available, canvas.current.getContext("2d")) : null),
    [data, available],
  );
  useEffect(() => {
    setChosen(null);
    setIsActive(false);
  }, [data]);
  useEffect(() => {
    if (layout) draw(canvas.current, shown, layout);
  }, [shown, layout, theme]);
  const cell = chosen && isCell(data, chosen) ? chosen : firstCell(data);

  const cellAt = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - layout.left) / layout.cell[0]);
    const row = Math.floor((event.clientY - box.top - layout.top) / layout.cell[1]);
    return isCell(data, [row, column]) ? [row, column] : null;
  };
  // One link lies over the cell below the pointer, or the one that keys have chosen: it can be opened in another tab, and thousands
  // of cells cost nothing.
  const point = (event) => {
    const at = layout && cellAt(event);
    if (at) setChosen(at);
    setIsActive(Boolean(at));
  };
  const click = (event) => {
    const at = layout && cellAt(event);
    if (at && event.target === canvas.current) follow(hrefOf(at));
  };
  const press = (event) => {
    const step = kSteps[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    setChosen(cellAfter(data, cell, step));
  };
  const { width, height } = layout ?? { width: 1, height: 1 };
  const size = `${data.rows.length} rows and ${data.columns.length} columns`;
  const place = layout &&
    cell && {
      left: `${layout.left + cell[1] * layout.cell[0]}px`,
      top: `${layout.top + cell[0] * layout.cell[1]}px`,
      width: `${layout.cell[0]}px`,
      height: `${layout.cell[1]}px`,
    };
  return html`<div class="matrix" ref=${frame}>
    ${legend}
    <div class="matrix-picture" onPointerMove=${point} onPointerDown=${point} onPointerLeave=${() => setIsActive(false)} onClick=${click}>
      <canvas
        ref=${canvas}
        role="img"
        aria-label=${`${label}: ${size}`}
        width=${Math.round(width * devicePixelRatio)}
        height=${Math.round(height * devicePixelRatio)}
        style=${{ width: `${width}px`, height: `${height}px` }}
      ></canvas>
      ${
        place &&
        html`<a
          class="matrix-cell"
          href=${hrefOf(cell)}
          aria-label=${cellText(shown, cell)}
          style=${place}
          onKeyDown=${press}
          onFocus=${() => setIsActive(true)}
          onBlur=${() => setIsActive(false)}
        ></a>`
      }
    </div>
    <p class="readout-line" role="status">
      ${isActive && cell ? cellText(shown, cell) : html`<span class="muted">A cell opens its tensor; arrow keys move.</span>`}
    </p>
    <details onToggle=${(event) => setIsOpen(event.target.open)}>
      <summary>As a table</summary>
      ${isOpen && html`<${Table} data=${data} textOf=${shown.textOf} label=${label} />`}
    </details>
  </div>`;
}
