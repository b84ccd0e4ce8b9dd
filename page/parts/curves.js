// Charts: histograms as steps and numbers of channels as lines, drawn by uPlot, with a readout and a table instead of the picture.

import { html, useLayoutEffect, useRef, useState } from "../lib.js";
import { formatNumber } from "../format.js";
import { useTheme } from "../theme.js";
import uPlot from "../vendor/uplot.js";
import { lineColour } from "./palette.js";
import { useWidth } from "./size.js";

const kHeight = 220;

// Numbers as uPlot wants them: a logarithmic axis has no 0, and steps end with the right edge of the last interval.
function dataOf({ x, end, lines, isLogarithmic }) {
  const values = lines.map(({ values: numbers }) =>
    isLogarithmic ? numbers.map((number) => (number > 0 ? number : null)) : numbers,
  );
  if (end === undefined) return [x, ...values];
  return [[...x, end], ...values.map((numbers) => [...numbers, numbers.at(-1) ?? null])];
}

// With `limits` [least, most], the numbers fill the picture; else it begins at 0.
function rangeOf({ isLogarithmic, limits }) {
  if (limits) {
    const [least, most] = limits;
    const pad = (most - least) / 20 || Math.abs(most) / 2 || 1;
    return () => [least - pad, most + pad];
  }
  if (isLogarithmic) return (_, min, max) => (min > 0 ? [min / 2, max * 2] : [0.1, 1]);
  return (_, min, max) => (max > 0 ? [Math.min(0, min), max * 1.05] : [0, 1]);
}

// Steps between the marks of an axis of whole numbers.
const kWholeSteps = Array.from({ length: 9 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

function axisOf(label, style, isWhole) {
  return {
    label,
    ...(isWhole ? { incrs: kWholeSteps } : {}),
    stroke: style.getPropertyValue("--muted"),
    font: `12px ${style.getPropertyValue("--text")}`,
    labelFont: `12px ${style.getPropertyValue("--text")}`,
    labelSize: 18,
    grid: { stroke: style.getPropertyValue("--line"), width: 1 },
    ticks: { stroke: style.getPropertyValue("--line"), width: 1 },
    values: (_, splits) => splits.map((split) => (split === null ? "" : formatNumber(split))),
  };
}

function optionsOf(chart, width, theme, onIndex) {
  const style = getComputedStyle(document.documentElement);
  const isSteps = chart.end !== undefined;
  const lines = chart.lines.map(({ name }, i) => {
    const stroke = lineColour(i, theme);
    const steps = isSteps ? { paths: uPlot.paths.stepped({ align: 1 }), fill: `${stroke}30` } : {};
    return { label: name, stroke, width: 1.5, points: { show: false }, ...steps };
  });
  return {
    width,
    height: kHeight,
    legend: { show: false },
    cursor: { y: false, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { distr: chart.isLogarithmic ? 3 : 1, range: rangeOf(chart) } },
    axes: [
      { ...axisOf(chart.xLabel, style, chart.isWhole), size: 34 },
      { ...axisOf(chart.yLabel, style, false), size: 68 },
    ],
    series: [{}, ...lines],
    hooks: { setCursor: [(plot) => onIndex(plot.cursor.idx ?? null)] },
  };
}

function Legend({ lines, theme, index }) {
  const isKnown = (values) => index !== null && index < values.length;
  return html`<ul class="chart-legend">
    ${lines.map(
      ({ name, values }, i) =>
        html`<li key=${name}>
          <span class="line-swatch" style=${{ background: lineColour(i, theme) }}></span> ${name}
          ${isKnown(values) && html`<span class="muted">${formatNumber(values[index])}</span>`}
        </li>`,
    )}
  </ul>`;
}

function Table({ label, head, rows }) {
  return html`<div class="scroll short" tabindex="0" role="region" aria-label=${label}>
    <table class="numbers">
      <caption>
        ${label}
      </caption>
      <thead>
        <tr>
          ${head.map((name) => html`<th scope="col" class="number">${name}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row, i) =>
            html`<tr key=${i}>
              ${row.map((cell) => html`<td class="number">${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

// `chart`: {label: a sentence for the picture, x, end (the last right edge, for steps), lines: [{name, values}…], xLabel, yLabel,
// isLogarithmic, limits (of the numbers, if it need not begin at 0), isWhole (x), placeOf(index): text}; `table`: {label, head, rows()}.
// Drag along the chart zooms, and a double click shows all.
export function Curves({ chart, table }) {
  const theme = useTheme();
  const [frame, width] = useWidth();
  const target = useRef(null);
  const plot = useRef(null);
  const [index, setIndex] = useState(null);
  const [isOpen, setIsOpen] = useState(false);
  useLayoutEffect(() => {
    if (width === 0) return undefined;
    plot.current = new uPlot(optionsOf(chart, width, theme, setIndex), dataOf(chart), target.current);
    return () => {
      plot.current.destroy();
      plot.current = null;
    };
  }, [chart, theme, width === 0]);
  useLayoutEffect(() => plot.current?.setSize({ width, height: kHeight }), [width]);
  const place = index !== null && index < chart.x.length ? chart.placeOf(index) : "";
  return html`<div class="chart" ref=${frame}>
    <div class="chart-head">
      <${Legend} lines=${chart.lines} theme=${theme} index=${index} />
      <span class="muted">${place}</span>
    </div>
    <div class="chart-picture" role="img" aria-label=${chart.label} ref=${target}></div>
    <details onToggle=${(event) => setIsOpen(event.target.open)}>
      <summary>Numbers as a table</summary>
      ${isOpen && html`<${Table} label=${table.label} head=${table.head} rows=${table.rows()} />`}
    </details>
  </div>`;
}
