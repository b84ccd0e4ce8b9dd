// The numbers of a tensor with one axis as a line: a number for each element, or the limits and the mean of each interval.

import { html, useMemo, useState } from "../lib.js";
import { getJson } from "../api.js";
import { formatBytes, formatCount, formatNumber } from "../format.js";
import { kMostUnasked } from "./amounts.js";
import { Curves } from "./curves.js";
import { Failure, Loading, useLoad } from "./load.js";

// At most so many points are drawn; the server accepts 4,096.
const kPoints = 2048;

// Whether the shape has one axis with more than one element, at most.
export const isLine = (shape) => shape.filter((side) => side !== 1).length <= 1;

// The first element of an interval of `count` elements in `points` intervals.
const beginOf = (point, count, points) => Math.floor((point * count) / points);

function placeText(point, count, points) {
  const [first, end] = [beginOf(point, count, points), beginOf(point + 1, count, points)];
  return end - first <= 1 ? `element ${formatCount(first)}` : `elements ${formatCount(first)}–${formatCount(end - 1)}`;
}

// A chart of responses of `line`, each with its name: one line for each if an interval is a single element.
function chartOf(responses, names) {
  const [{ count, mean }] = responses;
  const points = mean.length;
  const ofEach = ({ low, high, mean: middle }, name) => {
    const begin = name === "" ? "" : `${name}: `;
    if (points === count) return [{ name: name || "number", values: middle }];
    if (responses.length > 1) return [{ name: `${begin}mean`, values: middle }];
    return [
      { name: `${begin}mean`, values: middle },
      { name: `${begin}highest`, values: high },
      { name: `${begin}lowest`, values: low },
    ];
  };
  const lines = responses.flatMap((response, i) => ofEach(response, names[i]));
  const numbers = responses.flatMap(({ low, high }) => [...low, ...high]).filter((number) => number !== null);
  const [least, most] = numbers.length > 0 ? [Math.min(...numbers), Math.max(...numbers)] : [0, 0];
  return {
    label: `Line of ${formatCount(count)} elements, from ${formatNumber(least)} to ${formatNumber(most)}`,
    x: mean.map((_, point) => beginOf(point, count, points)),
    lines,
    limits: [least, most],
    xLabel: "index",
    yLabel: "number",
    isLogarithmic: false,
    isWhole: true,
    placeOf: (point) => placeText(point, count, points),
  };
}

function Chart({ responses, names }) {
  const chart = useMemo(() => chartOf(responses, names), [responses]);
  const table = {
    label: "Numbers",
    head: ["element", ...chart.lines.map(({ name }) => name)],
    rows: () =>
      chart.x
        .slice(0, 500)
        .map((_, point) => [chart.placeOf(point), ...chart.lines.map(({ values }) => formatNumber(values[point]))]),
  };
  return html`<${Curves} chart=${chart} table=${table} />`;
}

// `tensors`: [{parameters of requests, name}…] of one size; `bytes` are those of all.
export function LinePlot({ tensors, bytes, title = "Line" }) {
  const [isWanted, setIsWanted] = useState(bytes <= kMostUnasked);
  const load = (signal) =>
    Promise.all(tensors.map(({ parameters }) => getJson("line", { ...parameters, points: kPoints }, signal)));
  const { value, error, retry } = useLoad(async (signal) => (isWanted ? load(signal) : null), [isWanted]);
  return html`<section class="panel" aria-label=${title}>
    <h2>${title}</h2>
    ${!isWanted && html`<button type="button" onClick=${() => setIsWanted(true)}>Read all elements (${formatBytes(bytes)})</button>`}
    ${isWanted && !value && !error && html`<${Loading} />`}
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${value && html`<${Chart} responses=${value} names=${tensors.map(({ name }) => name)} />`}
  </section>`;
}
