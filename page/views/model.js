// What a person wants to know of a model first: what is wrong with it, what it is, what it consists of.

import { html } from "../lib.js";
import { clean, cleanLines, formatBytes, formatCount, formatParameters, formatPercent, shorten } from "../format.js";
import { Bars, hasBars } from "../parts/bars.js";
import { Memory } from "../parts/memory.js";
import { fitNames } from "../parts/names.js";
import { Experts, Overview } from "../parts/overview.js";
import { link } from "../state.js";

const kNameSize = 56; // characters of a block
const kMostWarnings = 3;

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
    model.parameters === null ? "" : `${formatParameters(model.parameters)} parameters`,
  ].filter((part) => part !== "");
  return html`<div class="model-head">
    <h1 title=${clean(model.title)}>${shorten(model.title, 120)}</h1>
    <p class="muted">${parts.join(" · ")}</p>
    <p>${clean(model.sentence)}</p>
  </div>`;
}

const kUnverified = "not verified (no digest known)";
const kNoChecksum = "not verified: no checksum is known";

// Facts as the page says them, where it has more to say than a line of a terminal.
const kTexts = {
  files: filesOf,
  memory: (_, value) => `${value}, without buffers`,
};

// Whether it is whole, and whether it may be used, then what `weightfs info` shows, without what is shown elsewhere.
function factsOf(model) {
  const verification = model.verification === kUnverified ? kNoChecksum : model.verification;
  const state = [model.complete ? "complete" : "not complete", verification].filter(Boolean).join("; ");
  const facts = model.facts.filter(({ label }) => label !== "licence" && label !== "warnings");
  const shown = facts.map(({ label, value }) => ({ label, value: kTexts[label]?.(model, value) ?? value }));
  const hasText = model.has_licence_text;
  const licence = model.licence ?? (hasText ? "" : "none stated");
  return [
    { label: "state", value: state },
    { label: "licence", value: licence, href: hasText ? link({ view: "metadata", part: "texts" }) : null },
    ...shown.filter(({ value }) => value !== ""),
  ];
}

// The files without how they are verified; a single one needs no word.
function filesOf({ verification }, value) {
  const rest = verification === "" ? value : value.replace(`; ${verification}`, "");
  return rest === "1" ? "" : rest;
}

function Facts({ model }) {
  return html`<section class="panel">
    <h2>Facts</h2>
    <dl class="facts">
      ${factsOf(model).map(
        ({ label, value, href }, place) => html`<div key=${place}>
          <dt>${clean(label)}</dt>
          <dd>${cleanLines(value)} ${href && html`<a href=${href}>Text of the licence</a>`}</dd>
        </div>`,
      )}
    </dl>
  </section>`;
}

function Block({ block, name }) {
  // A long name is broken after a separator. The roles stay when a narrow window shows the cells as two lines, where the numbers have
  // their words.
  return html`<tr role="row">
    <th scope="row" role="rowheader" class="name" title=${clean(block.name)}
      >${name.split(/(?<=[./_])/).map((part, place) => html`${place > 0 && html`<wbr />`}${part}`)}</th
    >
    <td role="cell" class="number" data-word=${block.tensors === 1 ? " tensor" : " tensors"}>${formatCount(block.tensors)}</td>
    <td role="cell" class="number" data-word=" parameters">${formatParameters(block.parameters)}</td>
    <td role="cell" class="number">${formatBytes(block.bytes)}</td>
    <td role="cell" class="number">${formatPercent(block.share)}</td>
    <td role="cell">
      ${clean(block.types)}${" "}
      ${block.refused > 0 && html`<span class="refused">${formatCount(block.refused)} refused</span>`}
    </td>
  </tr>`;
}

function Blocks({ blocks }) {
  if (blocks.length === 0) return null;
  const names = fitNames(
    blocks.map((block) => block.name),
    kNameSize,
  );
  return html`<section class="panel">
    <h2>Blocks</h2>
    <div class="scroll" tabindex="0" role="region" aria-label="Blocks">
      <table class="blocks" role="table">
        <thead role="rowgroup">
          <tr role="row">
            <th scope="col" role="columnheader">block</th>
            <th scope="col" role="columnheader" class="number">tensors</th>
            <th scope="col" role="columnheader" class="number">parameters</th>
            <th scope="col" role="columnheader" class="number">size</th>
            <th scope="col" role="columnheader" class="number">share</th>
            <th scope="col" role="columnheader">types</th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          ${blocks.map((block, place) => html`<${Block} key=${place} block=${block} name=${names[place]} />`)}
        </tbody>
      </table>
    </div>
  </section>`;
}

// A few warnings are shown; of more, the first ones, and the others when they are wanted.
function Warnings({ model }) {
  const isNew = (warning) => !model.alerts.some((alert) => alert.includes(warning));
  const all = [...model.warnings, ...model.fact_warnings].filter(isNew);
  if (all.length === 0) return null;
  const more = all.slice(kMostWarnings);
  const isCut = model.warning_count > model.warnings.length;
  const list = (warnings) => html`<ul class="warnings">
    ${warnings.map((warning, place) => html`<li key=${place}>${clean(warning)}</li>`)}
  </ul>`;
  return html`<section class="notice warning" aria-label="Warnings">
    ${list(all.slice(0, kMostWarnings))}
    ${
      more.length > 0 &&
      html`<details>
        <summary>${formatCount(more.length + model.warning_count - model.warnings.length)} more warnings</summary>
        ${list(more)} ${isCut && html`<p><a href=${link({ view: "files", file: "warnings.txt" })}>All are in warnings.txt</a></p>`}
      </details>`
    }
  </section>`;
}

export default function ModelView({ model }) {
  return html`
    <${Alerts} alerts=${model.alerts} />
    <${Warnings} model=${model} />
    <${Head} model=${model} />
    <div class="columns">
      <${Facts} model=${model} />
      <${Blocks} blocks=${model.blocks} />
    </div>
    ${model.tensors > 0 && html`<${Memory} key=${model.path} model=${model} />`}
    ${hasBars(model.bars) && html`<${Bars} bars=${model.bars} />`}
    ${model.tensors > 0 && html`<${Overview} model=${model} />`}
    ${model.has_experts && html`<${Experts} model=${model} />`}
  `;
}
