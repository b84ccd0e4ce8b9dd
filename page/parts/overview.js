// The types of the tensors of a model, layer by kind, or a number for each of them, or for each expert: numbers are first from a
// sample, on request from all elements.

import { html, useMemo, useState } from "../lib.js";
import { getJson, stream } from "../api.js";
import { clean, formatBytes, formatCount, formatNumber, formatPercent, shorten } from "../format.js";
import { link } from "../state.js";
import { Failure, Loading, useLoad } from "./load.js";
import { Matrix } from "./matrix.js";
import { gradientOf, orderOf, plainShades, ratioShades, typeShades } from "./shades.js";

const kMetrics = [
  ["type", "type"],
  ["rms", "RMS"],
  ["largest", "largest absolute value"],
  ["mean", "mean"],
  ["sparsity", "share of zeros"],
];
const kNoLayer = "(no layer)"; // the column of tensors without a layer
const kMostChips = 40;
const kMostNames = 16;

const withoutWeight = (name) => name.replace(/(?<=.)\.weight$/, "");

function Progress({ progress }) {
  if (!progress) return html`<${Loading} text="Computing …" />`;
  const { done, total, what } = progress;
  const text = `${formatBytes(done)} of ${formatBytes(total)}, ${formatPercent(total > 0 ? done / total : 0)}`;
  return html`<p class="progress" role="status">
    <progress max=${Math.max(total, 1)} value=${done} aria-label=${text}></progress>
    <span>${text}</span>
    <span class="muted name">${clean(what ?? "")}</span>
  </p>`;
}

// What all names begin with, up to a separator.
function commonPrefix(names) {
  if (names.length < 2) return "";
  let { length } = names[0];
  for (const name of names) {
    let equal = 0;
    while (equal < length && name[equal] === names[0][equal]) equal += 1;
    length = equal;
  }
  const end = Math.max(names[0].lastIndexOf(".", length - 1), names[0].lastIndexOf("/", length - 1));
  return names[0].slice(0, end + 1);
}

// The tensors in layers as a matrix, and the others as a list, of a response of `overview` or `experts`.
function partsOf(data) {
  const others = data.columns.indexOf(kNoLayer);
  const isLayer = (row) => data.unders[row] !== "";
  const rows = data.rows.map((_, row) => row).filter((row) => others < 0 || isLayer(row));
  const columns = data.columns.map((_, column) => column).filter((column) => column !== others);
  const prefix = commonPrefix(rows.map((row) => data.rows[row]));
  const take = (table) => rows.map((row) => columns.map((column) => table[row][column]));
  const chips = data.rows
    .map((name, row) => ({ name, value: data.values[row][others], index: data.tensors[row][others] ?? null }))
    .filter(({ index }, row) => index !== null && !isLayer(row));
  return {
    chips,
    rows: rows.map((row) => data.rows[row].slice(prefix.length)),
    names: rows.map((row) => data.rows[row]),
    prefix,
    unders: rows.map((row) => data.unders[row]),
    columns: columns.map((column) => withoutWeight(data.columns[column])),
    wholeColumns: columns.map((column) => data.columns[column]),
    vectors: columns.map((column) => data.vectors[column]),
    values: take(data.values),
    tensors: take(data.tensors),
    counts: take(data.counts),
    types: data.types,
    label: data.label,
  };
}

// The tensor of a cell; of several, which are experts, the list of them.
function hrefOf(parts, [row, column]) {
  if (parts.counts[row][column] === 1) return link({ view: "tensor", t: parts.tensors[row][column] });
  const words = parts.wholeColumns[column].split("*").filter(Boolean).join(" ");
  return link({ view: "tensors", under: parts.unders[row], q: words });
}

function Chips({ chips, textOf, colours }) {
  if (chips.length === 0) return null;
  return html`<div class="chips-line">
    <h3>Outside of layers</h3>
    <ul class="chips">
      ${chips.slice(0, kMostChips).map(
        ({ name, value, index }) => html`<li key=${name}>
          <a href=${link({ view: "tensor", t: index })} title=${clean(name)}>
            ${colours && value !== null && html`<span class=${`swatch kind-${colours[value]}`}></span>`}
            <span class="name">${shorten(withoutWeight(name), 40)}</span>${" "}
            <span class="muted">${value === null ? "no number" : textOf(value)}</span>
          </a>
        </li>`,
      )}
      ${chips.length > kMostChips && html`<li class="muted">and ${formatCount(chips.length - kMostChips)} others</li>`}
    </ul>
  </div>`;
}

// The types with how much has them, the largest first; `listOf(type)` is what else is said of each.
function TypesLegend({ types, colours, listOf = () => "" }) {
  const total = types.reduce((sum, type) => sum + type.bytes, 0);
  const sorted = types.map((type, place) => ({ ...type, place })).sort((a, b) => b.bytes - a.bytes);
  return html`<ul class="legend">
    ${sorted.map(
      (type) => html`<li key=${type.name}>
        <span class=${`swatch kind-${colours[type.place]}`}></span>
        <strong>${clean(type.name)}</strong>${" "}
        <span class="muted"
          >${formatCount(type.tensors)} ${type.tensors === 1 ? "tensor" : "tensors"}, ${formatBytes(type.bytes)},
          ${" "}${formatPercent(total > 0 ? type.bytes / total : 0)}</span
        >${listOf(type.place)}
      </li>`,
    )}
  </ul>`;
}

function Bar({ bar, note }) {
  return html`<div class="colour-bar">
    <div class="colour-bar-colours" style=${{ background: gradientOf(bar.scale) }}></div>
    <div class="colour-bar-numbers">${bar.ends.map((text) => html`<span key=${text}>${clean(text)}</span>`)}</div>
    ${note && html`<p class="muted">${note}</p>`}
  </div>`;
}

// For each column the only type that its cells have; null if one has several.
function typesOfColumns({ values, counts, columns }) {
  const found = columns.map(
    (_, column) => new Set(values.map((line) => line[column]).filter((_, row) => counts[row][column] > 0)),
  );
  return found.every((types) => types.size === 1) ? found.map((types) => [...types][0]) : null;
}

// Types that are the same in all layers, each with the tensors that have it.
function SameTypes({ parts, byColumn, colours }) {
  const listOf = (type) => {
    const names = parts.columns.filter((_, column) => byColumn[column] === type);
    if (names.length === 0) return "";
    const others = names.length - kMostNames;
    return `: ${names
      .slice(0, kMostNames)
      .map((name) => shorten(name, 40))
      .join(", ")}${others > 0 ? ` and ${others} others` : ""}`;
  };
  return html`<p>The types are the same in all layers:</p>
    <div class="same-types"><${TypesLegend} types=${parts.types} colours=${colours} listOf=${listOf} /></div>`;
}

function Types({ parts }) {
  const { types } = parts;
  const shades = useMemo(
    () => ({ ...typeShades(parts), data: parts, label: "Types", hrefOf: (cell) => hrefOf(parts, cell) }),
    [parts],
  );
  if (types.length === 1) {
    const { name, tensors } = types[0];
    return html`<p>${tensors === 1 ? "The only tensor is" : `All ${formatCount(tensors)} tensors are`} ${clean(name)}.</p>`;
  }
  const colours = orderOf(types);
  const byColumn = parts.rows.length > 0 ? typesOfColumns(parts) : null;
  const legend = html`<${TypesLegend} types=${types} colours=${colours} />`;
  const isMatrix = parts.rows.length > 0 && byColumn === null;
  return html`
    ${byColumn && html`<${SameTypes} parts=${parts} byColumn=${byColumn} colours=${colours} />`}
    ${isMatrix && html`<${Matrix} shown=${shades} legend=${legend} />`} ${parts.rows.length === 0 && legend}
    <${Chips} chips=${parts.chips} textOf=${shades.textOf} colours=${colours} />
  `;
}

const kAgainstMedian = new Set(["rms", "largest"]);

function shadesOf(parts, metric) {
  if (metric === "experts") return ratioShades(parts, true) ?? plainShades(parts);
  const isAgainstMedian = kAgainstMedian.has(metric) && parts.rows.length > 1;
  return isAgainstMedian ? ratioShades(parts, false) : plainShades(parts);
}

// A sentence for numbers that are all equal.
function sameText({ values, rows, label }, metric) {
  const numbers = new Set(values.flat().filter((value) => value !== null));
  if (numbers.size === 0) return rows.length > 0 ? "No tensor in a layer has numbers." : "";
  if (numbers.size === 1) return `${label}: ${[...numbers][0]} in all tensors of layers.`;
  return kAgainstMedian.has(metric) ? `${label}: the same in all layers.` : "";
}

function NumberMatrix({ parts, metric }) {
  const shades = useMemo(() => {
    const made = shadesOf(parts, metric);
    return made && { ...made, data: parts, label: parts.label, hrefOf: (cell) => hrefOf(parts, cell) };
  }, [parts, metric]);
  const legend = shades && html`<${Bar} bar=${shades.bar} note=${shades.note} />`;
  return html`
    ${shades && parts.rows.length > 0 ? html`<${Matrix} shown=${shades} legend=${legend} />` : html`<p>${sameText(parts, metric)}</p>`}
    <${Chips} chips=${parts.chips} textOf=${formatNumber} />
  `;
}

// What is shown of `path` ("overview" or "experts") with its controls.
function Shown({ path, model, metric, children }) {
  // Another metric begins with a sample again.
  const [exactMetric, setExactMetric] = useState(undefined);
  const isExact = exactMetric === metric;
  const [progress, setProgress] = useState(null);
  const load = async (signal) => {
    setProgress(null);
    const parameters = { model: model.path, v: model.v, metric: path === "experts" ? null : metric };
    // Types need no read of a tensor, hence no progress.
    if (metric === "type") return { metric, data: await getJson(path, parameters, signal) };
    parameters.mode = isExact ? "full" : "sample";
    return { metric, data: await stream(path, parameters, { signal, onProgress: setProgress }) };
  };
  const { value, error, isLoading, retry } = useLoad(load, [path, model.path, model.v, metric, isExact]);
  const data = value?.metric === metric ? value.data : null;
  const parts = useMemo(() => data && partsOf(data), [data]);
  const origin = metric === "type" || !data ? "" : data.sample ? "from a sample of rows" : "exact";
  return html`
    <div class="toolbar">
      ${children}
      ${data?.sample && !isExact && html`<button type="button" onClick=${() => setExactMetric(metric)}>Exact</button>`}
      ${isLoading && isExact && html`<button type="button" onClick=${() => setExactMetric(undefined)}>Stop</button>`}
      <span class="muted">${origin}</span>
    </div>
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${isLoading && html`<${Progress} progress=${progress} />`}
    ${parts && (metric === "type" ? html`<${Types} parts=${parts} />` : html`<${NumberMatrix} parts=${parts} metric=${metric} />`)}
    ${data?.failed > 0 && html`<p class="muted">Not read: ${formatCount(data.failed)} ${data.failed === 1 ? "tensor" : "tensors"}.</p>`}
  `;
}

export function Overview({ model }) {
  const [metric, setMetric] = useState("type");
  const [, name] = kMetrics.find(([id]) => id === metric);
  return html`<section class="panel overview">
    <h2>${metric === "type" ? "Types" : name.replace(/^[a-z]/, (letter) => letter.toUpperCase())}${model.bars.of === "layers" ? " by layer" : ""}</h2>
    <${Shown} path="overview" model=${model} metric=${metric}>
      <label>
        Show
        <select value=${metric} onChange=${(event) => setMetric(event.target.value)}>
          ${kMetrics.map(([id, title]) => html`<option key=${id} value=${id}>${title}</option>`)}
        </select>
      </label>
    <//>
  </section>`;
}

// Experts are read only on request: there can be thousands.
export function Experts({ model }) {
  const [isWanted, setIsWanted] = useState(false);
  return html`<section class="panel overview">
    <h2>RMS of experts by layer</h2>
    ${
      isWanted
        ? html`<${Shown} path="experts" model=${model} metric="experts" />`
        : html`<button type="button" onClick=${() => setIsWanted(true)}>Compute from a sample</button>`
    }
  </section>`;
}
