// The side panel of a node: its operator, attributes, inputs and outputs, with links to tensors and to other nodes.

import { html, useEffect, useState } from "../lib.js";
import { isAborted } from "../api.js";
import { clean, cleanLines, formatCount, formatShape, shorten } from "../format.js";
import { Failure, Loading, useLoad } from "../parts/load.js";
import { link } from "../state.js";
import { findTensor } from "./tensors.js";

const kMostSearched = 20; // tensors of one node

function Name({ name, most = 80 }) {
  return html`<span class="name" title=${shorten(name, 1000)}>${shorten(name, most)}</span>`;
}

// The indices of tensors by name, as they are found: a number, or null for a name without a tensor.
function useTensors(model, names) {
  const [found, setFound] = useState({});
  const key = JSON.stringify(names);
  useEffect(() => {
    const aborter = new AbortController();
    setFound({});
    const look = async () => {
      for (const name of names) {
        const index = await findTensor(model, name, aborter.signal);
        setFound((last) => ({ ...last, [`=${name}`]: index }));
      }
    };
    // Without an index the name is shown without a link; a lost connection is reported by what is loaded next.
    look().catch((error) => !isAborted(error) && setFound((last) => ({ ...last, isFailed: true })));
    return () => aborter.abort();
  }, [model.path, model.v, key]);
  return found;
}

function TensorName({ name, tensors }) {
  const index = tensors[`=${name}`];
  if (typeof index !== "number") return html`<${Name} name=${name} />`;
  return html`<a class="name" title=${shorten(name, 1000)} href=${link({ view: "tensor", t: index })}>${shorten(name, 80)}</a>`;
}

function NodeLink({ to: { node, group, label, name } }) {
  const text = name && name !== label ? `${shorten(label, 24)} ${shorten(name, 32)}` : shorten(label, 40);
  return html`<a title=${shorten(name || label, 1000)} href=${link({ group, node }, { keep: true })}>${text}</a>`;
}

function typeText({ dtype, shape }) {
  const size = shape ? formatShape(shape.map((each) => clean(each))) : "";
  return shorten([clean(dtype), size].filter(Boolean).join(", "), 120);
}

function Value({ value, tensors }) {
  if (value.isLeftOut) return html`<li class="muted">left out</li>`;
  const type = typeText(value);
  const name = value.name && html`<${value.isConstant ? TensorName : Name} name=${value.name} tensors=${tensors} />`;
  return html`<li>
    ${name} ${value.text !== null && html` <code>${shorten(value.text, 80)}</code>`}
    ${type && html`<div class="muted">${type}</div>`}
    ${value.producer && html`<div>from <${NodeLink} to=${value.producer} /></div>`}
    ${
      value.readers?.length > 0 &&
      html`<div>to ${value.readers.map((node) => html`<${NodeLink} key=${node.node} to=${node} /> `)}</div>`
    }
  </li>`;
}

function Values({ title, values, count, tensors }) {
  if (count === 0) return null;
  return html`<h3>${title}</h3>
    <ol class="values">
      ${values.map((value, index) => html`<${Value} key=${index} value=${value} tensors=${tensors} />`)}
    </ol>
    ${count > values.length && html`<p class="muted">${formatCount(count - values.length)} more</p>`}`;
}

function AttributeValue({ attribute, tensors }) {
  if (attribute.graph !== null)
    return html`<a href=${link({ view: "graph", graph: attribute.graph })}>graph ${attribute.graph + 1}</a>`;
  const { tensor, text } = attribute;
  if (tensor !== null && typeof tensors[`=${tensor}`] === "number") {
    return html`<a href=${link({ view: "tensor", t: tensors[`=${tensor}`] })}>${clean(text)}</a>`;
  }
  return html`<span class="attribute">${cleanLines(text)}</span>`;
}

function Attributes({ attributes, tensors }) {
  if (attributes.length === 0) return null;
  return html`<h3>Attributes</h3>
    <dl>
      ${attributes.map(
        (attribute, index) =>
          html`<div key=${index}>
            <dt><${Name} name=${attribute.name} most=${40} /></dt>
            <dd><${AttributeValue} attribute=${attribute} tensors=${tensors} /></dd>
          </div>`,
      )}
    </dl>`;
}

const kKindTitles = { input: "Input of the graph", output: "Output of the graph" };

function Details({ model, details }) {
  const constants = [...details.inputs, ...details.outputs]
    .filter((value) => value.isConstant && value.name)
    .map((value) => value.name);
  const inAttributes = details.attributes.map((attribute) => attribute.tensor).filter((name) => name !== null);
  const tensors = useTensors(model, [...new Set([...constants, ...inAttributes])].slice(0, kMostSearched));
  return html`
    ${details.name && html`<p><${Name} name=${details.name} most=${200} /></p>`}
    <${Values} title="Inputs" values=${details.inputs} count=${details.inputCount} tensors=${tensors} />
    <${Values} title="Outputs" values=${details.outputs} count=${details.outputCount} tensors=${tensors} />
    <${Attributes} attributes=${details.attributes} tensors=${tensors} />
  `;
}

// `load()` resolves to the details of the node, or to null if there is no such node.
export function Panel({ model, node, load, onClose }) {
  const { value, error, retry } = useLoad(async () => ({ node, details: await load() }), [load, node]);
  const details = value?.node === node ? value.details : undefined;
  const title = details ? (kKindTitles[details.kind] ?? details.op) : "Node";
  return html`<aside class="panel node-panel" aria-label="Node">
    <div class="toolbar">
      <h2 class="grow" title=${shorten(title, 1000)}>${shorten(title, 60)}</h2>
      <button type="button" aria-label="Close the panel" onClick=${onClose}>✕</button>
    </div>
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${details && html`<${Details} key=${node} model=${model} details=${details} />`}
    ${details === null && html`<p class="muted">The graph has no such node.</p>`}
    ${details === undefined && !error && html`<${Loading} />`}
  </aside>`;
}
