// Whether a model fits: its memory for a chosen context, type of keys and values, and GPU. The server computes it.

import { html, useState } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatBytes, formatCount } from "../format.js";
import { Failure, Loading, useLoad } from "./load.js";

const kGiB = 2 ** 30;
const kGpus = [4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 141, 192];
const kTypes = ["f16", "bf16", "f32", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"];
const kLeastContext = 1024;
const kMostContext = 2 ** 20; // of a model that does not state one
const kHeight = 24;

// What was chosen last, also for the next model.
const chosen = { context: 8192, type: "f16", gpu: 8 };

// 1024, 1536, 2048, 3072, … and the context of the model.
function contextsUpTo(most) {
  const steps = [];
  for (let tokens = kLeastContext; tokens < most; tokens *= 2) {
    steps.push(tokens);
    if (tokens * 1.5 < most) steps.push(tokens * 1.5);
  }
  return [...steps, most];
}

// The place of the largest step that is no more than this.
function placeOf(steps, tokens) {
  const above = steps.findIndex((step) => step > tokens);
  return above === -1 ? steps.length - 1 : Math.max(above - 1, 0);
}

const partsOf = ({ gpu, host }) => [
  { name: "weights", gpu: gpu.weights, host: host.weights, kind: 0 },
  { name: "KV cache", gpu: gpu.kv_cache, host: host.kv_cache, kind: 1 },
  { name: "buffers (estimate)", gpu: gpu.compute, host: host.compute, kind: 2 },
];

// The memory of the GPU as one bar: what is used, and a line where it ends.
function Bar({ answer, label }) {
  const capacity = answer.fit.gpu_bytes;
  const whole = Math.max(capacity, answer.gpu.total);
  let from = 0;
  const rects = partsOf(answer).map(({ name, gpu, kind }) => {
    const x = from;
    from += (gpu / whole) * 100;
    return html`<rect key=${name} class=${`kind-${kind}`} x=${x} y="0" width=${(gpu / whole) * 100} height=${kHeight} />`;
  });
  return html`<svg role="img" aria-label=${label} viewBox=${`0 0 100 ${kHeight}`} preserveAspectRatio="none">
    <rect class="capacity" x="0" y="0" width=${(capacity / whole) * 100} height=${kHeight} />
    ${rects}
    <line class="end" x1=${(capacity / whole) * 100} x2=${(capacity / whole) * 100} y1="0" y2=${kHeight} />
  </svg>`;
}

function Table({ answer }) {
  const bytesOf = (bytes) => (bytes === 0 ? "–" : formatBytes(bytes));
  return html`<table>
    <thead>
      <tr>
        <th scope="col">memory</th>
        <th scope="col" class="number">GPU</th>
        <th scope="col" class="number">host</th>
      </tr>
    </thead>
    <tbody>
      ${partsOf(answer).map(
        ({ name, gpu, host, kind }) => html`<tr key=${name}>
          <th scope="row"><span class=${`swatch kind-${kind}`}></span> ${name}</th>
          <td class="number">${bytesOf(gpu)}</td>
          <td class="number">${bytesOf(host)}</td>
        </tr>`,
      )}
      <tr>
        <th scope="row">total</th>
        <td class="number">${bytesOf(answer.gpu.total)}</td>
        <td class="number">${bytesOf(answer.host.total)}</td>
      </tr>
    </tbody>
  </table>`;
}

function Choice({ label, value, values, textOf, onChoose }) {
  return html`<label>
    ${label}${" "}
    <select value=${value} onChange=${(event) => onChoose(event.target.value)}>
      ${values.map((each) => html`<option key=${each} value=${each} selected=${each === value}>${textOf(each)}</option>`)}
    </select>
  </label>`;
}

function Controls({ steps, choice, change }) {
  const place = placeOf(steps, choice.context);
  const tokens = `${formatCount(steps[place])} tokens`;
  return html`<div class="controls">
    <label class="context">
      Context: ${tokens}
      <input
        type="range"
        min="0"
        max=${steps.length - 1}
        step="1"
        value=${place}
        aria-valuetext=${tokens}
        onInput=${(event) => change({ context: steps[Number(event.target.value)] })}
      />
    </label>
    <${Choice}
      label="KV cache"
      value=${choice.type}
      values=${kTypes}
      textOf=${(type) => type}
      onChoose=${(type) => change({ type })}
    />
    <${Choice}
      label="GPU"
      value=${choice.gpu}
      values=${kGpus}
      textOf=${(size) => `${size} GiB`}
      onChoose=${(size) => change({ gpu: Number(size) })}
    />
  </div>`;
}

// "Fits in 24.0 GiB: …", as a sentence of its own.
const sentenceOf = (text) => clean(text.charAt(0).toUpperCase() + text.slice(1));

function Answer({ answer }) {
  const known = answer.weights === undefined ? "Not" : `The weights take ${formatBytes(answer.weights)}; the rest is not`;
  const sentence = answer.reason ? `${known} known: ${clean(answer.reason)}.` : sentenceOf(`${answer.sentence}.`);
  return html`
    ${!answer.reason && html`<${Bar} answer=${answer} label=${sentence} />`}
    <p role="status" class=${answer.fit?.fits === false ? "refused" : ""}>${sentence}</p>
    ${!answer.reason && html`<p class="muted">The output layer counts as one of the ${formatCount(answer.layers)} layers.</p>`}
    ${(answer.warnings ?? []).map((warning) => html`<p key=${warning} class="muted">${sentenceOf(warning)}.</p>`)}
    ${!answer.reason && html`<${Table} answer=${answer} />`}
  `;
}

export function Memory({ model }) {
  const [choice, setChoice] = useState({ ...chosen });
  const { value, error, retry } = useLoad(
    (signal) =>
      getJson(
        "memory",
        { model: model.path, v: model.v, ctx: choice.context, kv: choice.type, gpu: choice.gpu * kGiB },
        signal,
      ),
    [model.path, model.v, choice.context, choice.type, choice.gpu],
  );
  // A graph has weights, which the facts show; it keeps nothing for a text.
  if (value?.language_model === false) return null;
  const change = (changes) => {
    Object.assign(chosen, changes);
    setChoice((last) => ({ ...last, ...changes }));
  };
  const steps = contextsUpTo(Math.min(value?.model_context ?? kMostContext, 2 ** 30));
  return html`<section class="panel memory">
    <h2>Memory</h2>
    ${value && (!value.reason || choice.type !== "f16") && html`<${Controls} steps=${steps} choice=${choice} change=${change} />`}
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${!value && !error && html`<${Loading} />`}
    ${value && html`<${Answer} answer=${value} />`}
  </section>`;
}
