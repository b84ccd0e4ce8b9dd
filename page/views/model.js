// What a person wants to know of a model first: what is wrong with it, what it is, what it consists of.

import { html } from "../lib.js";
import { clean, cleanLines, formatBytes, formatCount, formatParameters, formatPercent, shorten } from "../format.js";
import { Bars } from "../parts/bars.js";
import { Models } from "../parts/models.js";
import { Experts, Overview } from "../parts/overview.js";
import { link } from "../state.js";

function Alerts({ alerts }) {
  if (alerts.length === 0) return null;
  return html`<div class="notice danger alerts" role="alert">
    <ul>
      ${alerts.map((alert, place) => html`<li key=${place}>${clean(alert)}</li>`)}
    </ul>
  </div>`;
}

function Head({ model }) {
  const parts = [
    clean(model.format),
    formatBytes(model.bytes),
    `${formatCount(model.tensors)} ${model.tensors === 1 ? "tensor" : "tensors"}`,
    `${formatParameters(model.parameters)} parameters`,
  ];
  return html`<div class="model-head">
    <h1 title=${clean(model.title)}>${shorten(model.title, 120)}</h1>
    <p class="muted">${parts.join(" · ")}</p>
    <p>${clean(model.sentence)}</p>
  </div>`;
}

function Facts({ facts }) {
  if (facts.length === 0) return null;
  return html`<section class="panel">
    <h2>Facts</h2>
    <dl class="facts">
      ${facts.map(
        ({ label, value }, place) => html`<div key=${place}>
          <dt>${clean(label)}</dt>
          <dd>${cleanLines(value)}</dd>
        </div>`,
      )}
    </dl>
  </section>`;
}

function Block({ block }) {
  return html`<tr>
    <th scope="row" class="name" title=${clean(block.name)}>${shorten(block.name, 56)}</th>
    <td class="number">${formatCount(block.tensors)}</td>
    <td class="number">${formatParameters(block.parameters)}</td>
    <td class="number">${formatBytes(block.bytes)}</td>
    <td class="number">${formatPercent(block.share)}</td>
    <td>
      ${clean(block.types)}${" "}
      ${block.refused > 0 && html`<span class="refused">${formatCount(block.refused)} refused</span>`}
    </td>
  </tr>`;
}

function Blocks({ blocks }) {
  if (blocks.length === 0) return null;
  return html`<section class="panel">
    <h2>Blocks</h2>
    <div class="scroll" tabindex="0" role="region" aria-label="Blocks">
      <table class="blocks">
        <thead>
          <tr>
            <th scope="col">block</th>
            <th scope="col" class="number">tensors</th>
            <th scope="col" class="number">parameters</th>
            <th scope="col" class="number">size</th>
            <th scope="col" class="number">share</th>
            <th scope="col">types</th>
          </tr>
        </thead>
        <tbody>
          ${blocks.map((block, place) => html`<${Block} key=${place} block=${block} />`)}
        </tbody>
      </table>
    </div>
  </section>`;
}

function Warnings({ warnings, count }) {
  if (count === 0) return null;
  const isCut = count > warnings.length;
  return html`<details class="panel">
    <summary>${formatCount(count)} ${count === 1 ? "warning" : "warnings"}</summary>
    <ul class="warnings">
      ${warnings.map((warning, place) => html`<li key=${place}>${clean(warning)}</li>`)}
    </ul>
    ${isCut && html`<p><a href=${link({ view: "files", file: "warnings.txt" })}>All are in warnings.txt</a></p>`}
  </details>`;
}

export default function ModelView({ location, model }) {
  if (model === null) return html`<${Models} location=${location} />`;
  const hasBars = model.bars.layers.some((layer) => layer.bytes > 0);
  return html`
    <${Alerts} alerts=${model.alerts} />
    <${Head} model=${model} />
    <div class="columns">
      <${Facts} facts=${model.facts} />
      <${Blocks} blocks=${model.blocks} />
    </div>
    ${hasBars && html`<${Bars} bars=${model.bars} />`}
    ${model.tensors > 0 && html`<${Overview} model=${model} />`}
    ${model.has_experts && html`<${Experts} model=${model} />`}
    <${Warnings} warnings=${model.warnings} count=${model.warning_count} />
  `;
}
