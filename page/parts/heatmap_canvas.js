// Draws a heat map: its planes, scaled to the window that is shown, the numbers of large cells, the cursor and a rectangle.

import { formatNumber } from "../format.js";
import { colourOf, cssColour, inkOn } from "./palette.js";
import { contains, heightOf, widthOf } from "./window.js";

// Numbers are drawn in elements of at least this many pixels (of CSS).
const kNumberWidth = 24;
const kNumberHeight = 14;

// Whether the elements of a view are large enough for numbers.
export function hasRoomForNumbers(view, { width, height }) {
  return width / widthOf(view) >= kNumberWidth && height / heightOf(view) >= kNumberHeight;
}

// The place of a window on the canvas: [x, y, width, height].
function placeOfWindow(window, view, { width, height }) {
  const [x, y] = [width / widthOf(view), height / heightOf(view)];
  return [(window[2] - view[2]) * x, (window[0] - view[0]) * y, widthOf(window) * x, heightOf(window) * y];
}

// Draws the visible cells of a plane. Only these, because the place of all of them may be millions of pixels large.
function drawPlane(context, { image, grid }, view, size) {
  const visible = (from, to, first, end, cells) => {
    const perElement = cells / (end - first);
    const begin = Math.max(0, Math.floor((from - first) * perElement));
    return [begin, Math.min(cells, Math.ceil((to - first) * perElement)), 1 / perElement];
  };
  const [top, bottom, rowStep] = visible(view[0], view[1], grid.window[0], grid.window[1], grid.rows);
  const [left, right, columnStep] = visible(view[2], view[3], grid.window[2], grid.window[3], grid.columns);
  if (top >= bottom || left >= right) return;
  const part = [
    grid.window[0] + top * rowStep,
    grid.window[0] + bottom * rowStep,
    grid.window[2] + left * columnStep,
    grid.window[2] + right * columnStep,
  ];
  context.drawImage(image, left, top, right - left, bottom - top, ...placeOfWindow(part, view, size));
}

// The most digits of a number that fit into `room` pixels, or nothing. Decimals are cut below `least` only.
function fittingText(context, value, room, least) {
  const forms = [formatNumber(value)];
  if (Number.isFinite(value)) {
    for (const digits of [3, 2, 1]) forms.push(formatNumber(Number(value.toPrecision(digits))));
    for (const decimals of [3, 2, 1]) if (10 ** -decimals <= least) forms.push(formatNumber(Number(value.toFixed(decimals))));
  }
  const texts = forms.flatMap((form) => [form, form.replace(/^(−?)0\./, "$1.")]);
  return texts.find((text) => context.measureText(text).width <= room) ?? "";
}

function drawNumbers(context, { window, rows }, { view, size, scale, font }) {
  if (
    !contains(
      view.map((edge, i) => edge + (i % 2 ? 1 : -1)),
      window,
    )
  )
    return;
  const [left, top, width, height] = placeOfWindow(window, view, size);
  const [cellWidth, cellHeight] = [width / widthOf(window), height / heightOf(window)];
  context.font = `${Math.min(12, Math.floor(cellHeight - 3), Math.max(9, Math.floor(cellWidth / 4)))}px ${font}`;
  const least = Math.max(Math.abs(scale.low), Math.abs(scale.high)) / 4;
  context.textAlign = "center";
  context.textBaseline = "middle";
  rows.forEach((row, y) => {
    row.forEach((value, x) => {
      context.fillStyle = inkOn(colourOf(value, scale));
      const text = fittingText(context, value, cellWidth - 2, least);
      context.fillText(text, left + (x + 0.5) * cellWidth, top + (y + 0.5) * cellHeight);
    });
  });
}

// A frame that is seen on every colour.
function drawFrame(context, [x, y, width, height]) {
  const [frameWidth, frameHeight] = [Math.max(width, 3), Math.max(height, 3)];
  for (const [colour, line] of [
    ["#fff", 3],
    ["#000", 1],
  ]) {
    context.strokeStyle = colour;
    context.lineWidth = line;
    context.strokeRect(x, y, frameWidth, frameHeight);
  }
}

// Draws `picture`: {layers: [{image, grid}…], view, size {width, height, ratio}, scale, values, cell, rectangle, background, font}.
export function draw(canvas, picture) {
  const { layers, view, size, values, cell, rectangle, background } = picture;
  const context = canvas.getContext("2d");
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.imageSmoothingEnabled = false;
  context.fillStyle = background;
  context.fillRect(0, 0, size.width, size.height);
  for (const layer of layers) drawPlane(context, layer, view, size);
  if (values && hasRoomForNumbers(view, size)) drawNumbers(context, values, picture);
  if (cell) drawFrame(context, placeOfWindow([...cell.rows, ...cell.columns], view, size));
  if (rectangle) drawFrame(context, placeOfWindow(rectangle, view, size));
}

// The colour [red, green, blue] of a number as CSS text.
export const cssColourOf = (value, scale) => cssColour(colourOf(value, scale));
