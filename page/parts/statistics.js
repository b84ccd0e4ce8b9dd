// The figures of a tensor: first from a sample, then from all elements, on request with exact quantiles.

import { html, useEffect, useState } from "../lib.js";
import { getJson, isAborted } from "../api.js";
import { formatBytes, formatCount, formatNumber, formatPercent } from "../format.js";
import { kMostUnasked, kSmallTensor } from "./amounts.js";
import { Histogram } from "./histograms.js";
import { Failure, Loading } from "./load.js";
import { Progress, useStream } from "./progress.js";

// Types whose blocks have scales.
const kQuantised = /^(q\d|iq\d|tq\d|mxfp|nvfp)/i;

const shareText = (count, total) =>
  count > 0 && total > 0 ? `${formatCount(count)} (${formatPercent(count / total)})` : formatCount(count);

// Names and texts of the figures that the object has.
function rowsOf(figures) {
  const { count } = figures;
  const rows = [
    ["Count", "count", formatCount],
    ["Minimum", "min", formatNumber],
    ["Maximum", "max", formatNumber],
    ["Mean", "mean", formatNumber],
    ["Standard deviation", "std", formatNumber],
    ["RMS", "rms", formatNumber],
    ["Skewness", "skewness", formatNumber],
    ["Kurtosis (in excess of 3)", "kurtosis", formatNumber],
    ["Zeros", "zeros", (zeros) => shareText(zeros, count)],
    ["Near zero", "near_zero", (near) => shareText(near, count)],
    ["NaN", "nan", (nan) => shareText(nan, count)],
    ["Infinities", "inf", (infinite) => shareText(infinite, count)],
    [
      "Dead rows",
      "dead_rows",
      (rows) => (rows > 0 ? `${formatCount(rows)} of ${formatCount(figures.rows)}` : formatCount(rows)),
    ],
    ["Distinct numbers", "distinct", formatCount],
  ];
  return rows
    .filter(([, field]) => figures[field] !== undefined)
    .map(([name, field, format]) => [name, format(figures[field])]);
}

function percentileRows({ percentiles }) {
  const names = Object.keys(percentiles ?? {}).sort((a, b) => a - b);
  return names.map((name) => [`${name} %`, formatNumber(percentiles[name])]);
}

function List({ label, rows }) {
  if (rows.length === 0) return null;
  return html`<div>
    <h3>${label}</h3>
    <dl class="figures">
      ${rows.map(
        ([name, text]) =>
          html`<div key=${name}>
            <dt>${name}</dt>
            <dd>${text}</dd>
          </div>`,
      )}
    </dl>
  </div>`;
}

function Scales({ title, figures }) {
  if (!figures) return null;
  return html`<section class="panel" aria-label=${title}>
    <h2>${title}</h2>
    <div class="figure-lists">
      <${List} label="Figures" rows=${rowsOf(figures)} />
      <${List} label="Percentiles" rows=${percentileRows(figures)} />
    </div>
    <${Histogram} figures=${figures} title="Histogram of ${title.toLowerCase()}" unit="blocks" />
  </section>`;
}

// A sentence about a tensor whose elements are all the same, or null.
export function uniformText({ count, zeros, nan, inf, min, max, sample }) {
  const all = `All ${formatCount(count)} elements${sample ? " of the sample" : ""}`;
  if (!(count > 1)) return null;
  if (zeros === count) return `${all} are 0.`;
  if (nan === count) return `${all} are NaN.`;
  return min !== undefined && min === max && nan + inf === 0 ? `${all} are ${formatNumber(min)}.` : null;
}

// The first figures, what is computed after them, and the figures to show: the last that are there.
export function useStatistics(tensor, parameters) {
  const [first, setFirst] = useState({ figures: null, error: null });
  const run = useStream();
  const scales = kQuantised.test(tensor.dtype) ? 1 : null;
  const start = (mode) => run.start("statistics", { ...parameters, mode, scales });
  const readFirst = async (signal) => {
    const mode = tensor.parameters <= kSmallTensor ? "full" : "sample";
    try {
      const figures = await getJson("statistics", { ...parameters, mode, scales }, signal);
      signal.throwIfAborted();
      setFirst({ figures, error: null });
      if (mode === "sample" && tensor.bytes <= kMostUnasked) start("full");
    } catch (error) {
      if (!isAborted(error)) setFirst({ figures: null, error });
    }
  };
  useEffect(() => {
    const aborter = new AbortController();
    readFirst(aborter.signal);
    return () => aborter.abort();
  }, []);
  const retry = () => readFirst(new AbortController().signal);
  return {
    figures: run.value ?? first.figures,
    run,
    start,
    error: first.error ?? run.error,
    retry: first.error ? retry : null,
  };
}

function Mark({ figures, tensor }) {
  if (!figures.sample) return html`<span class="tag">all elements${figures.exact ? ", exact quantiles" : ""}</span>`;
  const share = tensor.parameters > 0 ? figures.count / tensor.parameters : 1;
  return html`<span class="tag warning">sampled ${formatPercent(share)}</span>`;
}

// `computed` is that of useStatistics().
export function Statistics({ tensor, computed }) {
  const { figures, run, start, error, retry } = computed;
  const isFullOffered = figures?.sample && !run.isRunning;
  const isExactOffered = figures && !figures.sample && figures.exact === false && !run.isRunning;
  return html`<div class="stack">
    <section class="panel" aria-label="Statistics">
      <div class="toolbar">
        <h2>Statistics</h2>
        ${figures && html`<${Mark} figures=${figures} tensor=${tensor} />`}
        ${
          isFullOffered &&
          html`<button type="button" onClick=${() => start("full")}>
            Compute from all elements (${formatBytes(tensor.bytes)})
          </button>`
        }
        ${
          isExactOffered &&
          html`<button type="button" title="Reads the tensor a second time" onClick=${() => start("exact")}>
            Exact quantiles
          </button>`
        }
      </div>
      ${run.isRunning && html`<${Progress} progress=${run.progress} what="Reading all elements" onCancel=${run.cancel} />`}
      ${error && html`<${Failure} error=${error} retry=${retry} />`} ${!figures && !error && html`<${Loading} />`}
      ${
        figures &&
        html`<div class="figure-lists">
          <${List} label="Figures" rows=${rowsOf(figures)} />
          <${List} label="Percentiles" rows=${percentileRows(figures)} />
        </div>`
      }
      ${figures && html`<${Histogram} figures=${figures} />`}
    </section>
    <${Scales} title="Block scales" figures=${figures?.scales} />
    <${Scales} title="Block minimums" figures=${figures?.minimums} />
  </div>`;
}
