// Reads the graph.json of TensorFlow: {"graph_def": {"nodes": […]}, "functions": [{"name", "inputs", "nodes", "returns"}]}.

import { GraphBuilder, isObject, listOf, textOf } from "./builder.js";

export const isTensorflow = (document) => isObject(document.graph_def);

// The graph, and each function.
export function listTensorflow(document) {
  const functions = listOf(document.functions).filter(isObject);
  return [
    { title: "main", source: document.graph_def },
    ...functions.map((source) => ({ title: `function ${textOf(source.name)}`, source })),
  ];
}

export const countTensorflow = ({ source }) => listOf(source.nodes).length;

// The node that an input refers to: "x" of "x:1", of "x:output:0" and of "^x", which only runs before.
const nodeOf = (input) => textOf(input).replace(/^\^/, "").replace(/:.*$/s, "");

export function buildTensorflow({ title, source }) {
  const builder = new GraphBuilder({ isTyped: false });
  const nodes = listOf(source.nodes).filter(isObject);
  const isConstant = (node) => node.op === "Const";
  const computed = new Set(nodes.filter((node) => !isConstant(node)).map((node) => textOf(node.name)));
  const valueOf = (name) => builder.value(name, () => ({ name, isConstant: !computed.has(name) }));
  for (const name of listOf(source.inputs)) builder.input(valueOf(textOf(name)));
  for (const node of nodes) {
    if (isConstant(node)) {
      builder.constants += 1;
      continue;
    }
    const attributes = { ...(isObject(node.attributes) ? node.attributes : {}) };
    if (node.device) attributes["(device)"] = node.device;
    builder.operator({
      op: node.op,
      name: node.name,
      inputs: listOf(node.inputs).map((input) => valueOf(nodeOf(input))),
      outputs: [valueOf(textOf(node.name))],
      attributes,
    });
  }
  for (const pair of listOf(source.returns)) builder.output(valueOf(nodeOf(listOf(pair)[1])));
  return builder.finish(title);
}
