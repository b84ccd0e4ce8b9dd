// The colours of an overview: those of types, or of numbers so that layers that differ from the others stand out.

import { formatNumber } from "../format.js";
import { colourAt, colourOf, cssColour, kNotFinite, placeOf } from "./palette.js";

export const kKindColours = 8;

const isNumber = (value) => value !== null && Number.isFinite(value);

function rgbOf(text) {
  const digits = text.trim().replace("#", "");
  return [0, 2, 4].map((at) => Number.parseInt(digits.slice(at, at + 2), 16));
}

function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// The places of types among the colours: those with most bytes have the first ones.
export function orderOf(types) {
  const order = types.map((_, type) => type).sort((a, b) => types[b].bytes - types[a].bytes || a - b);
  return types.map((_, type) => order.indexOf(type) % kKindColours);
}

export function typeShades({ types }) {
  const order = orderOf(types);
  return {
    paint: (value, _row, _column, style) => rgbOf(style.getPropertyValue(`--kind-${order[value]}`)),
    textOf: (value) => types[value]?.name ?? "",
  };
}

const isAbove = (value) => isNumber(value) && value > 0;

// Numbers against the median of their column (or their row): half of it, equal, twice. Null if all are equal to it.
export function ratioShades({ values }, isByRow) {
  const lines = isByRow ? values : (values[0]?.map((_, column) => values.map((line) => line[column])) ?? []);
  const middles = lines.map((line) => (line.some(isAbove) ? median(line.filter(isAbove)) : null));
  const logOf = (value, row, column) => {
    const middle = middles[isByRow ? row : column];
    return isAbove(value) && middle !== null ? Math.log2(value / middle) : null;
  };
  const logs = values.flatMap((line, row) => line.map((value, column) => logOf(value, row, column))).filter(isNumber);
  const most = logs.reduce((limit, log) => Math.max(limit, Math.abs(log)), 0);
  if (most < 1e-6) return null;
  // Differences of a few percent are noise, and beyond eight times all are outliers.
  const limit = Math.min(Math.max(most, Math.log2(1.25)), 3);
  const scale = { low: -limit, high: limit, palette: "blue-orange" };
  const times = formatNumber(Number((2 ** limit).toPrecision(3)));
  return {
    paint: (value, row, column) => {
      if (value === null) return kNotFinite;
      const log = logOf(value, row, column);
      return log === null ? (value === 0 ? colourAt("blue-orange", 0) : null) : colourOf(log, scale);
    },
    textOf: formatNumber,
    bar: { scale, ends: [`÷ ${times}`, `median of the ${isByRow ? "layer" : "column"}`, `× ${times}`] },
  };
}

// Numbers on one scale from the lowest to the highest. Columns of `vectors` have no colour beside others: their numbers would take
// all of the scale. Null if all are equal.
export function plainShades({ values, vectors, label }) {
  const hasMatrix = vectors.some((isVector) => !isVector);
  const isShown = (column) => !(hasMatrix && vectors[column]);
  const shown = values.flatMap((line) => line.filter((value, column) => isShown(column) && isNumber(value)));
  const low = shown.reduce((least, value) => Math.min(least, value), Infinity);
  const high = shown.reduce((most, value) => Math.max(most, value), -Infinity);
  if (!(high > low)) return null;
  const scale = { low, high, palette: low < 0 ? "blue-orange" : "cividis" };
  return {
    paint: (value, _row, column) => (!isShown(column) ? null : value === null ? kNotFinite : colourOf(value, scale)),
    textOf: formatNumber,
    bar: { scale, ends: [formatNumber(low), label, formatNumber(high)] },
    note: hasMatrix && vectors.some(Boolean) ? "Tensors of one dimension have no colour." : "",
  };
}

// The colours of a scale from left to right, for CSS.
export function gradientOf(scale) {
  const stops = Array.from({ length: 17 }, (_, i) => scale.low + (i / 16) * (scale.high - scale.low));
  return `linear-gradient(to right, ${stops.map((stop) => cssColour(colourAt(scale.palette, placeOf(stop, scale)))).join(", ")})`;
}
