// One tensor: its properties, figures, histogram, heat map and channels.

import { html } from "../lib.js";
import { getJson } from "../api.js";
import {
  clean,
  formatBytes,
  formatCount,
  formatNumber,
  formatParameters,
  formatPercent,
  formatShape,
  shorten,
} from "../format.js";
import { useKeys } from "../keys.js";
import { Channels } from "../parts/channels.js";
import { FirstNumbers } from "../parts/first_numbers.js";
import { Heatmap } from "../parts/heatmap.js";
import { isLine, LinePlot } from "../parts/line_plot.js";
import { Failure, Loading, useLoad } from "../parts/load.js";
import { Statistics, uniformText, useStatistics } from "../parts/statistics.js";
import { follow, link } from "../state.js";

const kForms = { raw: "Raw bytes", npy: "NumPy (.npy)", float32: "NumPy, as float32" };

// What is known of the bytes when they are read: a word or two, and a sentence.
const kVerifications = {
  whole: ["whole", "All bytes of the file were compared with its digest."],
  blocks: ["by blocks", "Each block of the file was compared with its digest when it was received."],
  transport: ["by the connection", "No digest of these bytes is known; only the connection to the server protects them."],
  mismatch: ["differs", "The bytes of the file differ from its digest."],
  none: ["not compared", "Bytes of a local file are read as they are; weightfs verify compares those that have a digest."],
};

const verificationOf = ({ verification }) => kVerifications[verification ?? "none"] ?? [clean(verification), ""];

// Downloads are files of the same server; anything else in a response is not made a link.
const isOwnPath = (href) => href.startsWith("/") && new URL(href, location.origin).origin === location.origin;

function Properties({ tensor }) {
  const rows = [
    ["Type", clean(tensor.dtype)],
    ["Shape", formatShape(tensor.shape)],
    [
      "Parameters",
      tensor.parameters < 1000
        ? formatCount(tensor.parameters)
        : `${formatParameters(tensor.parameters)} (${formatCount(tensor.parameters)})`,
    ],
    ["Size", formatBytes(tensor.bytes)],
    ["Bits per weight", formatNumber(tensor.bits)],
    ["Share of the model", formatPercent(tensor.share)],
    ["Verification", verificationOf(tensor)[0]],
  ];
  return html`<dl class="figures">
      ${rows.map(
        ([name, text]) =>
          html`<div key=${name}>
            <dt>${name}</dt>
            <dd>${text}</dd>
          </div>`,
      )}
    </dl>
    <p class="muted">${verificationOf(tensor)[1]}</p>`;
}

function Downloads({ downloads }) {
  const shown = downloads.filter(({ href }) => isOwnPath(href));
  if (shown.length === 0) return null;
  return html`<p class="downloads">
    Download:${" "}
    ${shown.map(
      ({ form, href, bytes }) =>
        html`<span key=${form}>
          <a href=${href} download>${kForms[form] ?? clean(form)}</a>
          <span class="muted">${bytes === null ? "" : formatBytes(bytes)}</span>
        </span>`,
    )}
  </p>`;
}

// The settings of the heat map that stay while a person goes from tensor to tensor.
const linkTo = (index, { names, metric, palette }) => link({ view: "tensor", t: index, names, metric, palette });

function Neighbour({ index, location, name }) {
  if (index === null) return html`<span class="muted">${name}</span>`;
  return html`<a href=${linkTo(index, location)}>${name}</a>`;
}

function Head({ tensor, location }) {
  const open = (index) => index !== null && follow(linkTo(index, location));
  useKeys({ "[": () => open(tensor.previous), "]": () => open(tensor.next) });
  return html`<div class="tensor-head">
    <h1 class="name" title=${clean(tensor.name)}>${shorten(tensor.name, 160)}</h1>
    <nav class="group" aria-label="Neighbours">
      <${Neighbour} index=${tensor.previous} location=${location} name="[ previous" />
      <${Neighbour} index=${tensor.next} location=${location} name="next ]" />
    </nav>
  </div>`;
}

// Why there are no pictures, or null.
function obstacleOf(tensor) {
  if (tensor.error !== null) return clean(tensor.error);
  if (tensor.refused) return "This tensor is refused: its bytes are not in the file as its header describes them.";
  if (!tensor.numbers) return `Elements of the type ${clean(tensor.dtype)} are not shown as numbers.`;
  return tensor.parameters === 0 ? "This tensor has no elements." : null;
}

function Pictures({ tensor, parameters, location }) {
  const { name, shape, rows, columns, bytes } = tensor;
  const computed = useStatistics(tensor, parameters);
  const { figures } = computed;
  const uniform = figures && tensor.parameters > 1 ? uniformText(figures) : null;
  // A picture of one number shows nothing; that of a sample may.
  const hasPicture = tensor.parameters > 1 && (uniform === null || figures.sample);
  const source = {
    parameters,
    name,
    shape,
    rows,
    columns,
    bytes,
    parameterCount: tensor.parameters,
    isDifference: false,
  };
  const picture = isLine(shape)
    ? html`<${LinePlot} tensors=${[{ parameters, name: "" }]} bytes=${bytes} />`
    : html`<${Heatmap} source=${source} location=${location} />`;
  return html`<div class="stack">
    ${uniform && html`<p class="notice">${uniform}</p>`} ${hasPicture && picture}
    <${Statistics} tensor=${tensor} computed=${computed} />
    ${hasPicture && !isLine(shape) && html`<${Channels} source=${source} />`}
  </div>`;
}

export default function TensorView({ location, model }) {
  const path = location.model ?? "";
  const { names } = location;
  const load = async (signal) => ({
    t: location.t,
    tensor: await getJson("tensor", { model: path, t: location.t, names }, signal),
  });
  const { value, error, retry } = useLoad(load, [path, location.t, names, model?.v]);
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (value?.t !== location.t) return html`<${Loading} />`;
  const { tensor } = value;
  const obstacle = obstacleOf(tensor);
  const parameters = { model: path, t: tensor.index, names, v: tensor.v };
  return html`<div class="stack">
    <${Head} tensor=${tensor} location=${location} />
    ${names === "gguf" && html`<p class="notice">The name and the values are those that a GGUF of this repository has.</p>`}
    <div class="tensor-top">
      <section class="panel" aria-label="Properties">
        <${Properties} tensor=${tensor} />
        <${Downloads} downloads=${tensor.downloads} />
      </section>
      ${!obstacle && html`<${FirstNumbers} key=${tensor.index} tensor=${tensor} parameters=${parameters} />`}
    </div>
    ${
      obstacle
        ? html`<p class=${`notice ${tensor.refused || tensor.error !== null ? "danger" : ""}`}>${obstacle}</p>`
        : html`<${Pictures}
            key=${[path, tensor.index, names, tensor.v].join("\n")}
            tensor=${tensor}
            parameters=${parameters}
            location=${location}
          />`
    }
  </div>`;
}
