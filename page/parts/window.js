// Windows of a matrix, [row, row end, column, column end] in elements: zooming, moving and the cells that they are reduced to.

// A window is not zoomed to fewer rows or columns than this, unless the matrix has fewer.
const kLeastSpan = 2;

// All of a matrix [rows, columns].
export const wholeOf = ([rows, columns]) => [0, rows, 0, columns];

export const heightOf = (window) => window[1] - window[0];
export const widthOf = (window) => window[3] - window[2];

// The number of elements in a window.
export const areaOf = (window) => heightOf(window) * widthOf(window);

export const isSameWindow = (a, b) => a.every((edge, i) => edge === b[i]);

// Whether every element of `inner` is in `outer`.
export function contains(outer, inner) {
  return outer[0] <= inner[0] && outer[1] >= inner[1] && outer[2] <= inner[2] && outer[3] >= inner[3];
}

// A range of `span` elements that begins near `from`, inside of `count` elements.
function placed(from, span, count) {
  const begin = Math.min(Math.max(0, from), count - span);
  return [begin, begin + span];
}

// `view` (with fractions) made smaller (factor < 1) or larger, so that the element at [row, column] stays at its place.
export function zoomed(view, matrix, factor, [row, column]) {
  const scaled = (span, count) => Math.min(count, Math.max(Math.min(kLeastSpan, count), span * factor));
  const along = (from, to, at, count) => {
    const span = scaled(to - from, count);
    return placed(at - ((at - from) / (to - from)) * span, span, count);
  };
  return [...along(view[0], view[1], row, matrix[0]), ...along(view[2], view[3], column, matrix[1])];
}

// `view` moved by `rows` and `columns`, as far as the matrix goes.
export function moved(view, matrix, rows, columns) {
  return [...placed(view[0] + rows, heightOf(view), matrix[0]), ...placed(view[2] + columns, widthOf(view), matrix[1])];
}

// The middle of a window: [row, column].
export const middleOf = (view) => [(view[0] + view[1]) / 2, (view[2] + view[3]) / 2];

// The least window of whole elements around `view`.
export function covering(view, [rows, columns]) {
  const tiny = 1e-6;
  const [top, left] = [Math.floor(view[0] + tiny), Math.floor(view[2] + tiny)];
  const bottom = Math.min(rows, Math.max(top + 1, Math.ceil(view[1] - tiny)));
  const right = Math.min(columns, Math.max(left + 1, Math.ceil(view[3] - tiny)));
  return [top, bottom, left, right];
}

// A window from text, "0,512,0,512" of a URL or "0:512,0:512" of a person; null if it is not one of this matrix.
export function parseWindow(text, [rows, columns]) {
  const parts = String(text ?? "")
    .trim()
    .split(/\s*[,:]\s*/);
  if (parts.length !== 4 || !parts.every((part) => /^\d{1,15}$/.test(part))) return null;
  const [top, bottom, left, right] = parts.map(Number);
  const isInside = top < bottom && bottom <= rows && left < right && right <= columns;
  return isInside ? [top, bottom, left, right] : null;
}

// "0:512,0:512", as of `weightfs plot --window`.
export const formatWindow = ([top, bottom, left, right]) => `${top}:${bottom},${left}:${right}`;

// The first of `count` elements that is in cell `cell` of `cells`, as the server divides them.
export function beginOf(cell, count, cells) {
  return Math.floor(count / cells) * cell + Math.floor(((count % cells) * cell) / cells);
}

// The cell of an element of `count`.
export function cellOf(element, count, cells) {
  let cell = Math.min(cells - 1, Math.max(0, Math.floor((element * cells) / count)));
  while (cell + 1 < cells && beginOf(cell + 1, count, cells) <= element) cell += 1;
  while (cell > 0 && beginOf(cell, count, cells) > element) cell -= 1;
  return cell;
}
