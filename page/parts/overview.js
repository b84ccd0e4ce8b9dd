// A number for each tensor of a model, layer by kind, or for each expert: first from a sample, on request from all elements.

import { html, useCallback, useState } from "../lib.js";
import { getJson, stream } from "../api.js";
import { clean, formatBytes, formatCount, formatPercent } from "../format.js";
import { follow, link } from "../state.js";
import { Failure, Loading, useLoad } from "./load.js";
import { Matrix } from "./matrix.js";

const kMetrics = [
  ["bits", "bits per weight"],
  ["rms", "RMS"],
  ["largest", "largest absolute value"],
  ["mean", "mean"],
  ["sparsity", "sparsity"],
];

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

// Where the numbers come from; bits per weight come from no element at all.
function originOf(data, metric) {
  if (metric === "bits") return "";
  return data.sample ? "from a sample of rows" : "exact";
}

// The matrix of `path` ("overview" or "experts") with its controls. `metric` null: the server chooses.
function Numbers({ path, model, metric, children }) {
  // Another metric begins with a sample again.
  const [exactMetric, setExactMetric] = useState(undefined);
  const isExact = exactMetric === metric;
  const [progress, setProgress] = useState(null);
  const load = async (signal) => {
    setProgress(null);
    const parameters = { model: model.path, v: model.v, metric };
    // Bits per weight need no read of a tensor, hence no progress.
    if (metric === "bits") return { metric, data: await getJson(path, parameters, signal) };
    parameters.mode = isExact ? "full" : "sample";
    return { metric, data: await stream(path, parameters, { signal, onProgress: setProgress }) };
  };
  const { value, error, isLoading, retry } = useLoad(load, [path, model.path, model.v, metric, isExact]);
  const open = useCallback((index) => follow(link({ view: "tensor", t: index })), []);
  const data = value?.metric === metric ? value.data : null;
  return html`
    <div class="toolbar">
      ${children}
      ${data?.sample && !isExact && html`<button type="button" onClick=${() => setExactMetric(metric)}>Exact</button>`}
      ${isLoading && isExact && html`<button type="button" onClick=${() => setExactMetric(undefined)}>Stop</button>`}
      ${data && html`<span class="muted">${originOf(data, metric)}</span>`}
    </div>
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${isLoading && html`<${Progress} progress=${progress} />`}
    ${data && html`<${Matrix} data=${data} onChoose=${open} />`}
    ${data?.failed > 0 && html`<p class="muted">Not read: ${formatCount(data.failed)} ${data.failed === 1 ? "tensor" : "tensors"}.</p>`}
  `;
}

export function Overview({ model }) {
  const [metric, setMetric] = useState("bits");
  return html`<section class="panel overview">
    <h2>Overview: layer × kind</h2>
    <${Numbers} path="overview" model=${model} metric=${metric}>
      <label>
        Number
        <select value=${metric} onChange=${(event) => setMetric(event.target.value)}>
          ${kMetrics.map(([id, name]) => html`<option key=${id} value=${id}>${name}</option>`)}
        </select>
      </label>
    <//>
  </section>`;
}

// Experts are read only on request: there can be thousands.
export function Experts({ model }) {
  const [isWanted, setIsWanted] = useState(false);
  return html`<section class="panel overview">
    <h2>Experts: layer × expert, RMS</h2>
    ${
      isWanted
        ? html`<${Numbers} path="experts" model=${model} metric=${null} />`
        : html`<button type="button" onClick=${() => setIsWanted(true)}>Compute from a sample</button>`
    }
  </section>`;
}
