// The choice of two models of the source, for a comparison.

import { html, useState } from "../lib.js";
import { getJson } from "../api.js";
import { clean, shorten } from "../format.js";
import { directoryOf } from "../state.js";
import { SingleModel } from "./compare_start.js";
import { Failure, useLoad } from "./load.js";

function Choice({ label, path, entries, onChoose }) {
  const isListed = entries.some((entry) => entry.path === path);
  return html`<label>
    ${label}
    <select value=${path ?? ""} title=${clean(path ?? "")} onChange=${(event) => onChoose(event.target.value)}>
      <option value="" disabled>choose a model</option>
      ${path && !isListed && html`<option value=${path}>${shorten(path, 60)}</option>`}
      ${entries.map((entry) => html`<option key=${entry.path} value=${entry.path}>${shorten(entry.name, 60)}</option>`)}
    </select>
  </label>`;
}

// `onChange` is called with parameters of the URL: {a, b}.
export function CompareChoice({ a, b, onChange }) {
  const [directory, setDirectory] = useState(directoryOf(b ?? a ?? ""));
  const { value, error, retry } = useLoad((signal) => getJson("models", { dir: directory }, signal), [directory]);
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (value?.single && directory === "") return html`<${SingleModel} />`;
  const ofKind = (kind) => (value?.entries ?? []).filter((entry) => entry.kind === kind);
  const directories = ofKind("directory");
  return html`<div class="toolbar compare-choice">
    ${
      (directories.length > 0 || directory !== "") &&
      html`<label>
        In
        <select value=${directory} onChange=${(event) => setDirectory(event.target.value)}>
          <option value="">all</option>
          ${directory && html`<option value=${directory}>${shorten(directory, 40)}</option>`}
          ${directory.includes("/") && html`<option value=${directoryOf(directory)}>${shorten(directoryOf(directory), 40)}</option>`}
          ${directories.map((entry) => html`<option key=${entry.path} value=${entry.path}>${shorten(entry.path, 40)}</option>`)}
        </select>
      </label>`
    }
    <${Choice} label="A" path=${a} entries=${ofKind("model")} onChoose=${(path) => onChange({ a: path, b })} />
    <${Choice} label="B" path=${b} entries=${ofKind("model")} onChoose=${(path) => onChange({ a, b: path })} />
    ${a && b && html`<button type="button" title="Exchange A and B" onClick=${() => onChange({ a: b, b: a })}>Exchange</button>`}
  </div>`;
}
