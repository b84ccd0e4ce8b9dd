// Reads the graph.json of TFLite: {"subgraphs": [{"name", "inputs", "outputs", "tensors", "operators"}]}.

import { GraphBuilder, isObject, listOf, textOf } from "./builder.js";

export const isTflite = (document) => Array.isArray(document.subgraphs);

// All subgraphs, in their order: {title, source}.
export function listTflite(document) {
  return document.subgraphs
    .filter(isObject)
    .map((source, index) => ({ title: textOf(source.name) || (index === 0 ? "main" : `subgraph ${index}`), source }));
}

export const countTflite = ({ source }) => listOf(source.operators).length;

const kOwnFields = new Set(["op", "inputs", "outputs", "builtin_options", "builtin_options_type"]);

// The options of an operator, and all its other fields.
function attributesOf(operator) {
  const others = Object.entries(operator).filter(([name]) => !kOwnFields.has(name));
  const options = operator.builtin_options;
  return { ...(isObject(options) ? options : {}), ...Object.fromEntries(others) };
}

export function buildTflite({ title, source }) {
  const builder = new GraphBuilder({ isTyped: true });
  const tensors = listOf(source.tensors);
  const valueOf = (id) => {
    const tensor = Number.isInteger(id) && id >= 0 ? tensors[id] : null;
    if (!isObject(tensor)) return -1;
    const isConstant = tensor.nbytes !== undefined || tensor.external_buffer !== undefined || tensor.problem !== undefined;
    return builder.value(id, () => ({ ...tensor, isConstant }));
  };
  const known = (ids) =>
    listOf(ids)
      .map(valueOf)
      .filter((value) => value >= 0);
  for (const value of known(source.inputs)) builder.input(value);
  for (const operator of listOf(source.operators).filter(isObject)) {
    const outputs = listOf(operator.outputs).map(valueOf);
    const first = outputs.find((value) => value >= 0);
    builder.operator({
      op: operator.op,
      // Operators have no names. That of the output says where they come from.
      name: first === undefined ? "" : builder.values[first].name,
      inputs: listOf(operator.inputs).map(valueOf),
      outputs,
      attributes: attributesOf(operator),
    });
  }
  for (const value of known(source.outputs)) builder.output(value);
  return builder.finish(title);
}
