// The bytes of each layer by kind of tensor: a column for each, which leads to its tensors, with an axis, and the same as a table.

import { html, useRef, useState } from "../lib.js";
import { clean, formatBytes, formatPercent, shorten } from "../format.js";
import { link } from "../state.js";
import { fitNames } from "./names.js";
import { useWidth } from "./size.js";

const kHeight = 100;
const kGap = 0.15;
const kMostTicks = 5;
const kSteps = [0.25, 0.5, 1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500];
const kCharacter = 8; // pixels of a character of a label, at most
const kLabel = 16; // characters of a label
const kMostComponents = 8; // of a name in a label
const kLeastBars = 2;

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

// The kinds that have bytes at all, each with its place in the response (which is also its colour) and its bytes.
function kindsWithBytes({ layers, kinds }) {
  return kinds
    .map((name, place) => ({ name, place, bytes: sum(layers.map((layer) => layer.kinds[place] ?? 0)) }))
    .filter((kind) => kind.bytes > 0);
}

function titleOf(layer, kinds) {
  const parts = kinds
    .filter((kind) => layer.kinds[kind.place] > 0)
    .map((kind) => `${kind.name} ${formatBytes(layer.kinds[kind.place])}`);
  const list = kinds.length > 1 ? ` (${parts.join(", ")})` : "";
  return clean(`${layer.name}: ${formatBytes(layer.bytes)}${list}`);
}

// Round numbers of bytes from 0 to the end of the axis, which is at least `largest`.
function ticksOf(largest) {
  const unit = 1024 ** Math.floor(Math.log2(Math.max(largest, 1)) / 10);
  const steps = kSteps.map((step) => step * unit).filter((step) => step >= 1);
  const step = steps.find((each) => largest / each <= kMostTicks - 1) ?? largest;
  return Array.from({ length: Math.ceil(largest / step) + 1 }, (_, i) => i * step);
}

// The tensor of a column that has one, or the list of its tensors; null if no prefix names them.
function hrefOf({ tensor, under }) {
  if (tensor !== null) return link({ view: "tensor", t: tensor });
  return under === "" ? null : link({ view: "tensors", under });
}

// What more than half of the names begin with before a number: "model.layers.".
function prefixOf(layers) {
  const counts = new Map();
  for (const { name } of layers) {
    const prefix = /^(.*[./])\d+$/s.exec(name)?.[1];
    if (prefix) counts.set(prefix, (counts.get(prefix) ?? 0) + 1);
  }
  const [prefix, count] = [...counts].reduce((most, each) => (each[1] > most[1] ? each : most), ["", 0]);
  return count * 2 > layers.length ? prefix : "";
}

// What all names begin with, up to a separator.
function commonBeginning(names) {
  let length = names.length < 2 ? 0 : names[0].length;
  for (const name of names) while (!name.startsWith(names[0].slice(0, length))) length -= 1;
  return /^.*[./_]|/s.exec((names[0] ?? "").slice(0, length))[0];
}

// As many components at the ends of names as set them apart, with a word at least: "input_blocks.4".
function distinctEnds(names) {
  const different = new Set(names).size;
  for (let components = 1; components <= kMostComponents; components += 1) {
    const ends = names.map((name) =>
      name
        .split(/(?<=[./])/)
        .slice(-components)
        .join(""),
    );
    if (new Set(ends).size === different && ends.every((end) => /\p{L}/u.test(end))) return ends;
  }
  return names;
}

// The text of each layer: its number, or of a layer without one as much of its name as sets it apart from the others.
function textsOf(layers, prefix) {
  const isNumbered = ({ name }) => prefix !== "" && name.startsWith(prefix);
  const names = layers.filter((layer) => !isNumbered(layer)).map(({ name }) => name);
  const ends = distinctEnds(names);
  const fitted = fitNames(ends, kLabel, commonBeginning(ends));
  return layers.map((layer) =>
    isNumbered(layer) ? shorten(layer.name.slice(prefix.length), kLabel) : fitted[names.indexOf(layer.name)],
  );
}

// The labels that fit side by side into `width` pixels: first those beside the numbered layers, the largest of them first.
function labelsOf(layers, prefix, width) {
  const placed = [];
  const texts = textsOf(layers, prefix);
  const isNumbered = ({ name }) => prefix !== "" && name.startsWith(prefix);
  const all = layers.map((layer, column) => ({ column, text: texts[column], isNumbered: isNumbered(layer), layer }));
  const stride = Math.ceil((layers.length * 4 * kCharacter) / Math.max(width, 1));
  const numbered = all.filter((label) => label.isNumbered);
  const others = all.filter((each) => !each.isNumbered).sort((a, b) => b.layer.bytes - a.layer.bytes);
  for (const label of [...others, ...numbered.filter((_, i) => i % stride === 0)]) {
    const half = ((label.text.length + 1) * kCharacter) / 2;
    const at = Math.max(half, Math.min(width - half, ((label.column + 0.5) * width) / layers.length));
    if (placed.every((other) => Math.abs(other.at - at) >= other.half + half)) placed.push({ ...label, at, half });
  }
  return placed;
}

// One layer: parts of the column from the bottom up.
function Column({ layer, column, kinds, scale, isTab, onFocus }) {
  let top = kHeight;
  const parts = html`<rect class="column" x=${column} y="0" width="1" height=${kHeight} />
    ${kinds.map((kind) => {
      const height = (layer.kinds[kind.place] ?? 0) * scale;
      top -= height;
      return html`<rect
        key=${kind.place}
        class=${`kind-${kind.place}`}
        x=${column + kGap / 2}
        y=${top}
        width=${1 - kGap}
        height=${height}
      />`;
    })}`;
  const title = titleOf(layer, kinds);
  const href = hrefOf(layer);
  if (href === null) return html`<g role="img" aria-label=${title}><title>${title}</title>${parts}</g>`;
  return html`<a href=${href} aria-label=${title} tabindex=${isTab ? 0 : -1} onFocus=${onFocus}><title>${title}</title>${parts}</a>`;
}

// The columns; Tab enters them once, and the arrow keys move from one to the next.
function Columns({ layers, kinds, end }) {
  const svg = useRef(null);
  const [current, setCurrent] = useState(0);
  const linked = layers.map((layer, column) => column).filter((column) => hrefOf(layers[column]) !== null);
  const tab = linked.includes(current) ? current : linked[0];
  const press = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = linked[linked.indexOf(tab) + step];
    if (next === undefined) return;
    event.preventDefault();
    setCurrent(next);
    svg.current.querySelectorAll("a")[linked.indexOf(next)].focus();
  };
  const label = `Bytes of ${layers.length} bars by kind, from 0 to ${formatBytes(end)}`;
  return html`<svg
    ref=${svg}
    role="group"
    aria-label=${label}
    viewBox=${`0 0 ${layers.length} ${kHeight}`}
    preserveAspectRatio="none"
    onKeyDown=${press}
  >
    ${layers.map(
      (layer, column) =>
        html`<${Column}
          key=${column}
          layer=${layer}
          column=${column}
          kinds=${kinds}
          scale=${kHeight / end}
          isTab=${column === tab}
          onFocus=${() => setCurrent(column)}
        />`,
    )}
  </svg>`;
}

function Legend({ kinds, total }) {
  if (kinds.length < 2) return null;
  return html`<ul class="legend">
    ${kinds.map(
      (kind) => html`<li key=${kind.place}>
        <span class=${`swatch kind-${kind.place}`}></span>
        ${clean(kind.name)} <span class="muted">${formatBytes(kind.bytes)}, ${formatPercent(kind.bytes / total)}</span>
      </li>`,
    )}
  </ul>`;
}

// `of`: the word for what has a bar.
function Table({ layers, kinds, of }) {
  return html`<details>
    <summary>As a table</summary>
    <div class="scroll short" tabindex="0" role="region" aria-label=${`Bytes by ${of}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">${of}</th>
            ${kinds.map((kind) => html`<th key=${kind.place} scope="col" class="number">${clean(kind.name)}</th>`)}
            <th scope="col" class="number">total</th>
          </tr>
        </thead>
        <tbody>
          ${layers.map(
            (layer, row) => html`<tr key=${row}>
              <th scope="row" class="name">${shorten(layer.name, 40)}</th>
              ${kinds.map((kind) => html`<td key=${kind.place} class="number">${formatBytes(layer.kinds[kind.place])}</td>`)}
              <td class="number">${formatBytes(layer.bytes)}</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </details>`;
}

// A single bar says nothing that the facts do not.
export const hasBars = ({ layers }) => layers.filter((layer) => layer.bytes > 0).length >= kLeastBars;

export function Bars({ bars }) {
  const kinds = kindsWithBytes(bars);
  const { layers } = bars;
  const largest = Math.max(...layers.map((layer) => layer.bytes));
  const ticks = ticksOf(largest);
  const end = ticks.at(-1);
  const total = sum(kinds.map((kind) => kind.bytes));
  const prefix = prefixOf(layers);
  const [area, width] = useWidth();
  const of = bars.of === "modules" ? "module" : "layer";
  return html`<section class="panel bars">
    <h2>Bytes by ${of}${kinds.length > 1 ? " and kind" : ""}</h2>
    <${Legend} kinds=${kinds} total=${total} />
    <div class="bars-picture">
      <div class="bars-axis" aria-hidden="true">
        ${ticks.map((tick) => html`<span key=${tick} style=${{ bottom: `${(100 * tick) / end}%` }}>${formatBytes(tick)}</span>`)}
      </div>
      <div class="bars-area" ref=${area}>
        ${ticks.map((tick) => html`<i key=${tick} style=${{ bottom: `${(100 * tick) / end}%` }}></i>`)}
        <${Columns} layers=${layers} kinds=${kinds} end=${end} />
      </div>
      <div class="bars-labels" aria-hidden="true">
        ${labelsOf(layers, prefix, width).map(
          ({ column, text, at, layer }) =>
            html`<span key=${column} title=${clean(layer.name)} style=${{ left: `${at}px` }}>${text}</span>`,
        )}
      </div>
    </div>
    <${Table} layers=${layers} kinds=${kinds} of=${of} />
  </section>`;
}
