// What the side panel shows of a node: its attributes, inputs and outputs.

import { isObject } from "./builder.js";
import { tensorOfAttribute } from "./onnx.js";

const kMostListed = 200; // inputs, outputs, readers or attributes
const kMostCharacters = 2000; // of an attribute
const kMostItems = 200; // of a list as an attribute

// The text of an attribute. Its graphs are left out, so that it is not deep; a text is not quoted.
function textOfAttribute(value) {
  if (typeof value === "string") return value.slice(0, kMostCharacters);
  if (Array.isArray(value)) {
    const more = value.length > kMostItems ? `, … (${value.length})` : "";
    return `[${value.slice(0, kMostItems).map(textOfAttribute).join(", ")}${more}]`.slice(0, kMostCharacters);
  }
  if (!isObject(value)) return String(value);
  if (Array.isArray(value.nodes)) return "graph";
  if (typeof value.tensor === "string") return `tensor ${value.dtype ?? ""} [${(value.shape ?? []).join(", ")}]`;
  return JSON.stringify(value, null, 1).slice(0, kMostCharacters);
}

// The attributes of a node: [{name, text, graph, tensor}], where `graph` is the index of a graph that is an attribute, or null.
// Lists of graphs are deep only as attributes of ONNX, which has them in lists of one level.
export function attributesOf(node, graphIndexOf) {
  return Object.entries(node.attributes ?? {})
    .slice(0, kMostListed)
    .map(([name, value]) => ({
      name,
      text: textOfAttribute(value),
      graph: isObject(value) ? (graphIndexOf.get(value) ?? null) : null,
      tensor: tensorOfAttribute(node, name, value),
    }));
}

function valueOf(view, index) {
  if (index < 0) return { name: "", isLeftOut: true };
  const { graph } = view;
  const { name, dtype, shape, isConstant, text, producer } = graph.values[index];
  return { name, dtype, shape, isConstant, text, producer: producer < 0 ? null : labelOf(view, producer) };
}

function labelOf({ graph, tree }, index) {
  const { op, name, kind } = graph.nodes[index];
  return { node: index, group: tree.groupOf[index], label: kind === "operator" ? op : name || op, name };
}

// The nodes that read an output, at most kMostListed.
function readersOf(view, index, output) {
  const { graph, readers } = view;
  const found = [];
  for (let at = readers.start[index]; at < readers.start[index + 1] && found.length < kMostListed; ++at) {
    const reader = readers.list[at];
    if (found.at(-1)?.node !== reader && graph.nodes[reader].inputs.includes(output)) found.push(labelOf(view, reader));
  }
  return found;
}

// `view` is {graph, tree, readers}; `graphIndexOf` has the graphs that are values of attributes.
export function detailsOf(view, index, graphIndexOf) {
  const { graph, tree } = view;
  const node = graph.nodes[index];
  return {
    node: index,
    kind: node.kind,
    op: node.op,
    name: node.name,
    group: tree.groupOf[index],
    attributes: attributesOf(node, graphIndexOf),
    inputs: node.inputs.slice(0, kMostListed).map((input) => valueOf(view, input)),
    inputCount: node.inputs.length,
    outputs: node.outputs.slice(0, kMostListed).map((output) => ({
      ...valueOf(view, output),
      producer: null,
      readers: readersOf(view, index, output),
    })),
    outputCount: node.outputs.length,
  };
}
