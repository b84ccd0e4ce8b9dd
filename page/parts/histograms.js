// The histograms of a tensor: intervals from the least to the largest number, or powers of two of the absolutes.

import { html, useMemo, useState } from "../lib.js";
import { clean, formatCount, formatNumber, formatPercent, shorten } from "../format.js";
import { Curves } from "./curves.js";

// The interval `i` of `count` from low to high, as text.
function intervalText(low, high, count, i) {
  const edge = (place) => low + (place / count) * (high - low);
  return `${formatNumber(edge(i))} to ${formatNumber(edge(i + 1))}`;
}

const edgesOf = (low, high, count) => Array.from({ length: count }, (_, i) => low + (i / count) * (high - low));

// A chart of intervals of equal width. A single number gets an interval around it.
function linearChart({ min, max, histogram }, unit, isLogarithmic) {
  const count = histogram.length;
  const [low, high] = max > min ? [min, max] : [min - 0.5, max + 0.5];
  const counts = max > min ? histogram : histogram.map((_, i) => (i === count >> 1 ? histogram.reduce((a, b) => a + b, 0) : 0));
  const top = counts.indexOf(Math.max(...counts));
  return {
    label: `Histogram from ${formatNumber(min)} to ${formatNumber(max)}; most numbers are from ${intervalText(low, high, count, top)}`,
    x: edgesOf(low, high, count),
    end: high,
    lines: [{ name: unit, values: counts }],
    xLabel: "number",
    yLabel: unit,
    isLogarithmic,
    placeOf: (i) => intervalText(low, high, count, i),
  };
}

// A chart of the exponents of two: e holds the numbers with an absolute from 2^e to 2^(e + 1).
function exponentChart(bins, unit, isLogarithmic) {
  const first = bins[0].exponent;
  const exponents = Array.from({ length: bins.at(-1).exponent - first + 1 }, (_, i) => first + i);
  const countsOf = (sign) => {
    const counts = exponents.map(() => 0);
    for (const bin of bins) counts[bin.exponent - first] = bin[sign];
    return counts;
  };
  const top = bins.reduce((best, bin) => (bin.negative + bin.positive > best.negative + best.positive ? bin : best));
  return {
    label: `Histogram of exponents of two from ${first} to ${exponents.at(-1)}; most numbers have ${top.exponent}`,
    x: exponents,
    end: exponents.at(-1) + 1,
    lines: [
      { name: "negative", values: countsOf("negative") },
      { name: "positive", values: countsOf("positive") },
    ],
    xLabel: "log2 of the absolute",
    yLabel: unit,
    isLogarithmic,
    isWhole: true,
    placeOf: (i) => `2^${exponents[i]} to 2^${exponents[i] + 1}`,
  };
}

const tableOf = (chart, label) => ({
  label,
  head: ["interval", ...chart.lines.map(({ name }) => name)],
  rows: () => chart.x.map((_, i) => [chart.placeOf(i), ...chart.lines.map(({ values }) => formatCount(values[i]))]),
});

function Choice({ name, isOn, onChoose }) {
  return html`<button type="button" aria-pressed=${isOn ? "true" : "false"} onClick=${onChoose}>${name}</button>`;
}

// The histogram of figures like those of `statistics`; with `title`, a small part of a larger section.
export function Histogram({ figures, title = "Histogram", unit = "elements" }) {
  const [isExponents, setIsExponents] = useState(false);
  const [isLogarithmic, setIsLogarithmic] = useState(false);
  const { histogram, log2_histogram: exponents } = figures;
  const hasNumbers = histogram?.length > 0 && figures.min !== null;
  const hasExponents = exponents?.length > 0;
  const chart = useMemo(() => {
    if (!hasNumbers) return null;
    return isExponents && hasExponents
      ? exponentChart(exponents, unit, isLogarithmic)
      : linearChart(figures, unit, isLogarithmic);
  }, [figures, isExponents, isLogarithmic]);
  if (!chart) return null;
  return html`<div class="histogram">
    <div class="toolbar">
      <h3>${title}</h3>
      <span class="group">
        <${Choice} name="Numbers" isOn=${!isExponents} onChoose=${() => setIsExponents(false)} />
        ${hasExponents && html`<${Choice} name="log2 of absolutes" isOn=${isExponents} onChoose=${() => setIsExponents(true)} />`}
      </span>
      <span class="group">
        <${Choice} name="Linear counts" isOn=${!isLogarithmic} onChoose=${() => setIsLogarithmic(false)} />
        <${Choice} name="Logarithmic" isOn=${isLogarithmic} onChoose=${() => setIsLogarithmic(true)} />
      </span>
    </div>
    <${Curves} chart=${chart} table=${tableOf(chart, title)} />
  </div>`;
}

// Two tensors in one histogram: `response` is that of `histogram`, `names` those of its lines.
export function HistogramPair({ response, names }) {
  const [isLogarithmic, setIsLogarithmic] = useState(false);
  const chart = useMemo(() => {
    const { low, high, lines } = response;
    const count = lines[0].shares.length;
    return {
      label: `Histograms of ${names.map((name) => shorten(name, 60)).join(" and ")} from ${formatNumber(low)} to ${formatNumber(high)}`,
      x: edgesOf(low, high, count),
      end: high,
      lines: lines.map(({ shares }, i) => ({ name: shorten(clean(names[i]), 60), values: shares })),
      xLabel: "number",
      yLabel: "share of the elements",
      isLogarithmic,
      placeOf: (i) => intervalText(low, high, count, i),
    };
  }, [response, isLogarithmic]);
  const table = {
    label: "Shares of the elements",
    head: ["interval", ...chart.lines.map(({ name }) => name)],
    rows: () => chart.x.map((_, i) => [chart.placeOf(i), ...chart.lines.map(({ values }) => formatPercent(values[i]))]),
  };
  return html`<div class="histogram">
    <div class="toolbar">
      <span class="group">
        <${Choice} name="Linear" isOn=${!isLogarithmic} onChoose=${() => setIsLogarithmic(false)} />
        <${Choice} name="Logarithmic" isOn=${isLogarithmic} onChoose=${() => setIsLogarithmic(true)} />
      </span>
      ${response.sample && html`<span class="tag">sampled</span>`}
    </div>
    <${Curves} chart=${chart} table=${table} />
  </div>`;
}
