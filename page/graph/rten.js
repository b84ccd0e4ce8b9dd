// Reads the graph.json of RTen: {"inputs", "outputs", "captures", "nodes"}, whose nodes are constants, values and operators.

import { GraphBuilder, isObject, listOf, textOf } from "./builder.js";

export const isRten = (document) => Array.isArray(document.nodes);

const isOperator = (node) => isObject(node) && node.kind === "operator";

// All graphs, outer ones first: {title, source}.
export function listRten(document) {
  const graphs = [{ title: "main", source: document }];
  for (let at = 0; at < graphs.length; ++at) {
    for (const node of listOf(graphs[at].source.nodes).filter(isOperator)) {
      for (const [name, value] of Object.entries(isObject(node.attrs) ? node.attrs : {})) {
        if (!isObject(value) || !Array.isArray(value.nodes)) continue;
        const path = at === 0 ? "" : `${graphs[at].title} / `;
        graphs.push({ title: `${path}${textOf(node.name) || textOf(node.op)} ${name}`, source: value });
      }
    }
  }
  return graphs;
}

export const countRten = ({ source }) => listOf(source.nodes).filter(isOperator).length;

export function buildRten({ title, source }) {
  const builder = new GraphBuilder({ isTyped: true });
  const nodes = listOf(source.nodes);
  // -1 is an input that is left out; an operator is no value.
  const valueOf = (id) => {
    const node = Number.isInteger(id) && id >= 0 ? nodes[id] : null;
    if (!isObject(node) || isOperator(node)) return -1;
    return builder.value(id, () => ({ ...node, isConstant: node.kind === "constant" }));
  };
  const known = (ids) =>
    listOf(ids)
      .map(valueOf)
      .filter((value) => value >= 0);
  for (const value of known(source.inputs)) builder.input(value);
  for (const value of known(source.captures)) builder.input(value, "Outer value");
  for (const node of nodes.filter(isOperator)) {
    const attributes = { ...(isObject(node.attrs) ? node.attrs : {}) };
    if (node.problem) attributes["(problem)"] = node.problem;
    const outputs = listOf(node.outputs).map(valueOf);
    const first = outputs.find((value) => value >= 0);
    builder.operator({
      op: node.op,
      name: textOf(node.name) || (first === undefined ? "" : builder.values[first].name),
      inputs: listOf(node.inputs).map(valueOf),
      outputs,
      attributes,
    });
  }
  for (const value of known(source.outputs)) builder.output(value);
  return builder.finish(title);
}
