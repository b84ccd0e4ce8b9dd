// Planes of a heat map: the server's bytes (0 is a cell with NaN or an infinity) with the limits and the window of their grid.

import { colourOf, kNotFinite } from "./palette.js";
import { beginOf, cellOf, heightOf, widthOf } from "./window.js";

const kLevels = 254;

// The number of a byte, or NaN.
export function valueOfByte(byte, { low, high }) {
  return byte === 0 ? NaN : low + ((byte - 1) / kLevels) * (high - low);
}

// The colours of the 256 bytes of a grid on a scale, which may have other limits than the grid: pixels for an ImageData.
export function colourTable(grid, scale) {
  const bytes = new Uint8Array(256 * 4);
  for (let byte = 0; byte < 256; byte += 1) {
    const colour = byte === 0 ? kNotFinite : colourOf(valueOfByte(byte, grid), scale);
    bytes.set([...colour, 255], byte * 4);
  }
  return new Uint32Array(bytes.buffer);
}

// Draws a plane into `canvas`, one pixel for each cell.
export function paint({ bytes, grid }, scale, canvas) {
  const table = colourTable(grid, scale);
  canvas.width = grid.columns;
  canvas.height = grid.rows;
  const image = new ImageData(grid.columns, grid.rows);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i += 1) pixels[i] = table[bytes[i]];
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// The number of cells with NaN or an infinity.
export function countNotFinite({ bytes }) {
  let count = 0;
  for (const byte of bytes) if (byte === 0) count += 1;
  return count;
}

// The cell of an element [row, column] of the matrix, or null: its rows, columns, number, and whether the limits cut the number.
export function cellAt({ bytes, grid }, row, column) {
  const [top, bottom, left, right] = grid.window;
  if (row < top || row >= bottom || column < left || column >= right) return null;
  const [height, width] = [heightOf(grid.window), widthOf(grid.window)];
  const y = cellOf(Math.floor(row - top), height, grid.rows);
  const x = cellOf(Math.floor(column - left), width, grid.columns);
  const byte = bytes[y * grid.columns + x];
  return {
    rows: [top + beginOf(y, height, grid.rows), top + beginOf(y + 1, height, grid.rows)],
    columns: [left + beginOf(x, width, grid.columns), left + beginOf(x + 1, width, grid.columns)],
    value: valueOfByte(byte, grid),
    cut: byte === 1 && grid.min < grid.low ? "below" : byte === 255 && grid.max > grid.high ? "above" : null,
  };
}

// The number of largest absolute among cells, or their mean; NaN if all are not finite.
function reduced(values, metric) {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return NaN;
  if (metric === "mean") return finite.reduce((sum, value) => sum + value, 0) / finite.length;
  if (metric === "rms") return Math.sqrt(finite.reduce((sum, value) => sum + value * value, 0) / finite.length);
  return finite.reduce((best, value) => (Math.abs(value) > Math.abs(best) ? value : best));
}

// A coarse table of a plane, of at most `side` rows and columns: {rows: [[first, end]…], columns: [[first, end]…], values}.
export function coarseTable({ bytes, grid }, metric, side = 8) {
  const [height, width] = [Math.min(side, grid.rows), Math.min(side, grid.columns)];
  const parts = (count, cells) => Array.from({ length: count + 1 }, (_, i) => beginOf(i, cells, count));
  const [down, right] = [parts(height, grid.rows), parts(width, grid.columns)];
  const ranges = (edges, first, count, cells) =>
    edges.slice(1).map((end, i) => [first + beginOf(edges[i], count, cells), first + beginOf(end, count, cells)]);
  const valueAt = (y, x) => {
    const values = [];
    for (let row = down[y]; row < down[y + 1]; row += 1) {
      for (let column = right[x]; column < right[x + 1]; column += 1) {
        values.push(valueOfByte(bytes[row * grid.columns + column], grid));
      }
    }
    return reduced(values, metric);
  };
  return {
    rows: ranges(down, grid.window[0], heightOf(grid.window), grid.rows),
    columns: ranges(right, grid.window[2], widthOf(grid.window), grid.columns),
    values: Array.from({ length: height }, (_, y) => Array.from({ length: width }, (_, x) => valueAt(y, x))),
  };
}
