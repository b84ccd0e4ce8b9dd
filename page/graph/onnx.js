// Reads the graph.json of ONNX: {"graph": {…}, "functions": [{…}]}, where a subgraph is the value of an attribute. `values` of a graph
// are those between nodes whose types and shapes were stored.

import { GraphBuilder, isObject, listOf, textOf } from "./builder.js";

export const isOnnx = (document) => isObject(document.graph);

const isGraph = (value) => isObject(value) && Array.isArray(value.nodes);
const labelOf = (node) => textOf(node.name) || textOf(listOf(node.outputs)[0]) || textOf(node.op_type);

// The graphs in the attributes of a node: [name of the attribute, graph].
function subgraphsOf(node) {
  const found = [];
  for (const [name, value] of Object.entries(isObject(node.attributes) ? node.attributes : {})) {
    if (isGraph(value)) found.push([name, value]);
    listOf(value).forEach((each, index) => isGraph(each) && found.push([`${name}.${index}`, each]));
  }
  return found;
}

// All graphs, outer ones first: {title, source, outer}.
export function listOnnx(document) {
  const graphs = [{ title: textOf(document.graph.name) || "main", source: document.graph, outer: null }];
  for (const each of listOf(document.functions)) {
    if (isObject(each)) graphs.push({ title: `function ${textOf(each.name)}`, source: each, outer: null });
  }
  for (let at = 0; at < graphs.length; ++at) {
    const { title, source } = graphs[at];
    for (const node of listOf(source.nodes)) {
      if (!isObject(node)) continue;
      for (const [name, graph] of subgraphsOf(node)) {
        const path = at === 0 ? "" : `${title} / `;
        graphs.push({ title: `${path}${labelOf(node)} ${name}`, source: graph, outer: graphs[at] });
      }
    }
  }
  return graphs;
}

export const countOnnx = ({ source }) => listOf(source.nodes).length;

// The name of a value of a graph's lists: functions have plain names.
const described = (value) => (isObject(value) ? value : { name: textOf(value) });

function namesOf(graph) {
  graph.names ??= new Set([
    ...listOf(graph.source.inputs).map((value) => textOf(described(value).name)),
    ...listOf(graph.source.nodes).flatMap((node) => listOf(node?.outputs)),
  ]);
  return graph.names;
}

// Whether a value is computed in a graph around this one.
function isOuter(graph, name) {
  for (let outer = graph.outer; outer; outer = outer.outer) if (namesOf(outer).has(name)) return true;
  return false;
}

// A Constant is not drawn: it is an input of other operators. One that is an output of the graph is.
function isDrawn(node, outputs) {
  return node.op_type !== "Constant" || listOf(node.outputs).some((name) => outputs.has(name));
}

// Adds the inputs of a graph. Old models repeat their tensors there: `inputNames` are those that have no tensor, if they are known.
function addInputs(builder, graph, valueOf, inputNames) {
  const computed = new Set(listOf(graph.source.nodes).flatMap((node) => listOf(node?.outputs)));
  for (const value of listOf(graph.source.inputs)) {
    const name = textOf(described(value).name);
    if (computed.has(name)) continue;
    const isTensor = inputNames !== null && !inputNames.has(name);
    const index = valueOf(name, { ...described(value), isConstant: isTensor });
    if (!isTensor) builder.input(index);
  }
}

export function buildOnnx(graph, inputNames) {
  const builder = new GraphBuilder({ isTyped: false });
  const { source } = graph;
  const outputs = new Map(listOf(source.outputs).map((value) => [textOf(described(value).name), described(value)]));
  const typed = new Map(listOf(source.values).map((value) => [textOf(described(value).name), described(value)]));
  const nodes = listOf(source.nodes).filter(isObject);
  const computed = new Set(nodes.filter((node) => isDrawn(node, outputs)).flatMap((node) => listOf(node.outputs)));
  // A name without a node is a tensor of the model.
  const valueOf = (name, fields) =>
    builder.value(name, () => ({ isConstant: !computed.has(name), ...typed.get(name), ...outputs.get(name), ...fields, name }));
  addInputs(builder, graph, valueOf, graph.outer === null ? inputNames : null);
  const inputOf = (name) => {
    if (name === "") return -1; // an optional input that is left out
    if (computed.has(name) || !isOuter(graph, name)) return valueOf(name);
    const value = valueOf(name, { isConstant: false });
    if (builder.values[value].producer < 0) builder.input(value, "Outer value");
    return value;
  };
  for (const node of nodes) {
    if (!isDrawn(node, outputs)) {
      builder.constants += 1;
      continue;
    }
    const attributes = { ...(isObject(node.attributes) ? node.attributes : {}) };
    if (node.domain) attributes["(domain)"] = node.domain;
    builder.operator({
      op: node.op_type,
      name: labelOf(node),
      inputs: listOf(node.inputs).map((name) => inputOf(textOf(name))),
      outputs: listOf(node.outputs).map((name) => (name === "" ? -1 : valueOf(textOf(name)))),
      attributes,
    });
  }
  for (const name of outputs.keys()) builder.output(valueOf(name));
  return builder.finish(graph.title);
}

// The name of the tensor in an attribute (docs/formats/onnx.md, Names).
export function tensorOfAttribute(node, name, value) {
  if (!isObject(value) || typeof value.tensor !== "string") return null;
  return value.tensor || (node.op === "Constant" ? node.name : `${node.name}.${name}`);
}
