// Reads a graph.json of any format: the list of its graphs, each of which is built when it is first shown.

import { formatCount } from "../format.js";
import { isObject, kMostOperators } from "./builder.js";
import { buildExecutorch, countExecutorch, isExecutorch, listExecutorch } from "./executorch.js";
import { buildOnnx, countOnnx, isOnnx, listOnnx } from "./onnx.js";
import { buildRten, countRten, isRten, listRten } from "./rten.js";
import { buildTensorflow, countTensorflow, isTensorflow, listTensorflow } from "./tensorflow.js";
import { buildTflite, countTflite, isTflite, listTflite } from "./tflite.js";

const kFormats = [
  { is: isOnnx, list: listOnnx, count: countOnnx, build: buildOnnx },
  { is: isTflite, list: listTflite, count: countTflite, build: buildTflite },
  { is: isExecutorch, list: listExecutorch, count: countExecutorch, build: buildExecutorch },
  { is: isTensorflow, list: listTensorflow, count: countTensorflow, build: buildTensorflow },
  { is: isRten, list: listRten, count: countRten, build: buildRten },
];

// The graphs of a document: [{title, operators, source, build()}]. Throws an Error with a sentence if they cannot be shown.
// `inputNames`: the names of the inputs that have no tensor, or null if they are unknown.
export function readGraphs(document, inputNames) {
  const format = isObject(document) ? kFormats.find((each) => each.is(document)) : undefined;
  const listed = format?.list(document) ?? [];
  if (listed.length === 0) throw new Error("This graph.json has no graph.");
  const graphs = listed.map((graph) => ({
    title: graph.title,
    source: graph.source,
    operators: format.count(graph),
    build: () => format.build(graph, inputNames),
  }));
  const operators = graphs.reduce((sum, graph) => sum + graph.operators, 0);
  if (operators > kMostOperators) {
    const counts = `The graph has ${formatCount(operators)} operators; at most ${formatCount(kMostOperators)} are drawn.`;
    throw new Error(`${counts} The file graph.json lists them all.`);
  }
  return graphs;
}
