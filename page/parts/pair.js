// Two tensors side by side: how far they are apart, their histograms, the heat map and the channels of their difference.

import { html, useEffect } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatBytes, formatCosine, formatCount, formatNumber, formatPercent, formatShape, shorten } from "../format.js";
import { link } from "../state.js";
import { kMostUnasked } from "./amounts.js";
import { Channels } from "./channels.js";
import { Heatmap } from "./heatmap.js";
import { HistogramPair } from "./histograms.js";
import { isLine, LinePlot } from "./line_plot.js";
import { Failure, Loading, useLoad } from "./load.js";
import { Progress, useStream } from "./progress.js";

function Side({ label, path, names, tensor }) {
  return html`<tr>
    <th scope="row">${label}</th>
    <td>${shorten(path || "this model", 60)}</td>
    <td>
      <a class="name" title=${clean(tensor.name)} href=${link({ view: "tensor", model: path || null, t: tensor.index, names })}
        >${shorten(tensor.name, 80)}</a
      >
    </td>
    <td>${clean(tensor.dtype)}</td>
    <td>${formatShape(tensor.shape)}</td>
    <td class="number">${formatBytes(tensor.bytes)}</td>
  </tr>`;
}

function Sides({ a, b, names, names2, tensors }) {
  const head = ["", "model", "tensor", "type", "shape"];
  return html`<div class="scroll" tabindex="0" role="region" aria-label="The two tensors">
    <table>
      <thead>
        <tr>
          ${head.map((name) => (name ? html`<th scope="col">${name}</th>` : html`<td></td>`))}
          <th scope="col" class="number">size</th>
        </tr>
      </thead>
      <tbody>
        <${Side} label="A" path=${a} names=${names} tensor=${tensors[0]} />
        <${Side} label="B" path=${b} names=${names2} tensor=${tensors[1]} />
      </tbody>
    </table>
  </div>`;
}

function Figures({ stat }) {
  const place = stat.max_at ? ` at [${stat.max_at.join(", ")}]` : "";
  const rows = [
    ["SNR", stat.differing === 0 ? "∞" : `${formatNumber(stat.snr_db)} dB`],
    ["Relative error", formatPercent(stat.relative_error)],
    ["RMSE", formatNumber(stat.rmse)],
    ["Cosine", stat.cosine === null ? "–" : formatCosine(stat.cosine)],
    ["Largest difference", `${formatNumber(stat.max)}${place}`],
    ["Mean difference", formatNumber(stat.mean)],
    ["Elements that differ", `${formatCount(stat.differing)} of ${formatCount(stat.count)}`],
    ["Pairs with NaN", formatCount(stat.nan)],
  ];
  return html`<dl class="figures">
    ${rows.map(
      ([name, text]) =>
        html`<div key=${name}>
          <dt>${name}</dt>
          <dd>${text}</dd>
        </div>`,
    )}
  </dl>`;
}

// How far the numbers are apart: from the comparison of both models if that has computed it, else from the server.
function Deviation({ stat, parameters, bytes }) {
  const { value, progress, error, isRunning, start, cancel } = useStream();
  const measure = () => start("deviation", parameters);
  useEffect(() => {
    if (!stat && bytes <= kMostUnasked) measure();
  }, []);
  if (stat ?? value) return html`<${Figures} stat=${stat ?? value} />`;
  if (isRunning) return html`<${Progress} progress=${progress} what="Computing the deviation" onCancel=${cancel} />`;
  if (error) return html`<${Failure} error=${error} retry=${measure} />`;
  return html`<p><button type="button" onClick=${measure}>Compute the deviation (${formatBytes(bytes)})</button></p>`;
}

function Histograms({ parameters, bytes, names }) {
  const mode = bytes > kMostUnasked ? "sample" : "full";
  const { value, error, retry } = useLoad((signal) => getJson("histogram", { ...parameters, mode }, signal), []);
  return html`<section class="panel" aria-label="Histograms">
    <h2>Histograms</h2>
    ${error && html`<${Failure} error=${error} retry=${retry} />`} ${!value && !error && html`<${Loading} />`}
    ${value && html`<${HistogramPair} response=${value} names=${names} />`}
  </section>`;
}

function Pictures({ a, b, tensors, location }) {
  const [first, second] = tensors;
  const isSameShape = first.shape.join() === second.shape.join();
  const { names, names2 } = location;
  const parameters = { model: a, t: first.index, names, model2: b, t2: second.index, names2 };
  const bytes = first.bytes + second.bytes;
  const { shape, rows, columns } = first;
  const name = first.name === second.name ? first.name : `${first.name} and ${second.name}`;
  const source = {
    parameters,
    name,
    shape,
    rows,
    columns,
    bytes,
    parameterCount: first.parameters,
    isDifference: true,
  };
  const lines = [
    { parameters: { model: a, t: first.index, names }, name: "A" },
    { parameters: { model: b, t: second.index, names: names2 }, name: "B" },
  ];
  const difference = html`<${Heatmap} source=${source} location=${location} title="Heat map of the difference, A − B" />
    ${shape.length >= 2 && html`<${Channels} source=${source} />`}`;
  return html`<div class="stack">
    <${Histograms} parameters=${parameters} bytes=${bytes} names=${["A", "B"]} />
    ${
      isSameShape
        ? isLine(shape)
          ? html`<${LinePlot} tensors=${lines} bytes=${bytes} title="Lines" />`
          : difference
        : html`<p class="notice">The shapes differ, so there is no difference of elements.</p>`
    }
  </div>`;
}

// `row` is that of the comparison, if it is there.
export function Pair({ a, b, location, row }) {
  const { t, t2, names, names2 } = location;
  const load = (signal) =>
    Promise.all([
      getJson("tensor", { model: a, t, names }, signal),
      getJson("tensor", { model: b, t: t2, names: names2 }, signal),
    ]);
  const { value: tensors, error, retry } = useLoad(load, []);
  const none = { t: null, t2: null, names: null, names2: null, window: null, low: null, high: null, axes: null, at: null };
  const back = link(none, { keep: true });
  const hasNumbers = tensors?.every((tensor) => tensor.numbers && !tensor.refused && tensor.parameters > 0);
  const isMeasurable = hasNumbers && tensors[0].shape.join() === tensors[1].shape.join();
  return html`<div class="stack">
    <nav aria-label="Comparison"><a href=${back}>All differences</a></nav>
    ${error && html`<${Failure} error=${error} retry=${retry} />`} ${!tensors && !error && html`<${Loading} />`}
    ${
      tensors &&
      html`<section class="panel" aria-label="Pair">
          <${Sides} a=${a} b=${b} names=${names} names2=${names2} tensors=${tensors} />
          ${(names ?? names2) && html`<p>The tensor of ${names ? "A" : "B"} has the name and the values that a GGUF of it has.</p>`}
          ${
            isMeasurable &&
            html`<${Deviation}
              stat=${row?.stat}
              parameters=${{ model: a, t, names, model2: b, t2, names2 }}
              bytes=${tensors[0].bytes + tensors[1].bytes}
            />`
          }
          ${row?.change === "renamed" && html`<p>Both have the same bytes.</p>`}
        </section>
        ${
          hasNumbers
            ? html`<${Pictures} a=${a} b=${b} tensors=${tensors} location=${location} />`
            : html`<p class="notice">One of the two has no numbers that can be read.</p>`
        }`
    }
  </div>`;
}
