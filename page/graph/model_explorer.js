// The graphs of a model in the form of Google's Model Explorer: {label, graphs: [{id, nodes: [{id, label, namespace, attrs, …}]}]}.

import { attributesOf } from "./details.js";
import { GroupTree } from "./tree.js";

const kMostCharacters = 500; // of a label, a namespace or an attribute
const kMostBytes = 256 * 1024 * 1024; // of the file
const kMostEdges = 2_000_000; // of a graph

const cut = (text) => text.slice(0, kMostCharacters);
const attribute = (key, value) => ({ key: cut(key), value: cut(String(value)) });

// The identifiers of the graphs: their titles, with a number where a title is repeated.
function identifiersOf(graphs) {
  const used = new Set();
  return graphs.map(({ title }) => {
    const text = cut(title);
    let identifier = text;
    for (let count = 2; used.has(identifier); ++count) identifier = `${text} (${count})`;
    used.add(identifier);
    return identifier;
  });
}

function namespaceOf(tree, node) {
  const labels = tree.pathOf(tree.groupOf[node]).slice(1);
  return cut(labels.map((group) => cut(tree.labels[group])).join("/"));
}

// The type and shape of a value, and its name, as the attributes that Model Explorer shows on edges.
function metadataOf(value, id) {
  const attrs = [attribute("tensor_name", value.name)];
  if (value.dtype !== "" || value.shape !== null)
    attrs.push(attribute("tensor_shape", `${value.dtype}[${(value.shape ?? []).join(",")}]`));
  return { id: String(id), attrs };
}

// The nodes of a graph; each constant is a node beside its first reader.
function* nodesOf(graph, graphIndexOf, identifiers) {
  const edges = graph.nodes.reduce((sum, { inputs }) => sum + inputs.length, 0);
  if (edges > kMostEdges) throw new Error("The graph is too large to be saved: it has more than 2,000,000 edges.");
  const tree = new GroupTree(graph);
  const isDrawn = new Uint8Array(graph.values.length); // constants that have their node
  for (let index = 0; index < graph.nodes.length; ++index) {
    const node = graph.nodes[index];
    const namespace = namespaceOf(tree, index);
    const incomingEdges = [];
    for (let slot = 0; slot < node.inputs.length; ++slot) {
      const input = node.inputs[slot];
      if (input < 0) continue;
      const value = graph.values[input];
      const isComputed = value.producer >= 0;
      if (!isComputed && !isDrawn[input]) {
        isDrawn[input] = 1;
        const attrs = value.text === null ? [] : [attribute("value", value.text)];
        const outputsMetadata = [metadataOf(value, 0)];
        yield {
          id: `value ${input}`,
          label: cut(value.name) || "constant",
          namespace,
          attrs,
          incomingEdges: [],
          outputsMetadata,
        };
      }
      incomingEdges.push({
        sourceNodeId: isComputed ? String(value.producer) : `value ${input}`,
        sourceNodeOutputId: String(isComputed ? value.slot : 0),
        targetNodeInputId: String(slot),
      });
    }
    const attributes = attributesOf(node, graphIndexOf);
    const subgraphIds = attributes.filter((each) => each.graph !== null).map((each) => identifiers[each.graph]);
    yield {
      id: String(index),
      label: cut(node.op),
      namespace,
      attrs: [attribute("name", node.name), ...attributes.map(({ name, text }) => attribute(name, text))],
      incomingEdges,
      outputsMetadata: node.outputs.flatMap((output, slot) => (output < 0 ? [] : [metadataOf(graph.values[output], slot)])),
      ...(subgraphIds.length > 0 && { subgraphIds }),
    };
  }
}

// The file, as a Blob. `graphs` is the list of readGraphs(); `label` names the model.
export function modelExplorerFile(graphs, label, graphIndexOf) {
  const identifiers = identifiersOf(graphs);
  const parts = [`{"label": ${JSON.stringify(cut(label))}, "graphs": [`];
  let size = 0;
  graphs.forEach((each, at) => {
    parts.push(`${at === 0 ? "" : ","}\n{"id": ${JSON.stringify(identifiers[at])}, "nodes": [`);
    let separator = "\n";
    for (const node of nodesOf(each.build(), graphIndexOf, identifiers)) {
      const text = separator + JSON.stringify(node);
      if ((size += text.length) > kMostBytes)
        throw new Error("The graph is too large to be saved: it would have more than 256 MiB.");
      parts.push(text);
      separator = ",\n";
    }
    parts.push("\n]}");
  });
  parts.push("\n]}\n");
  return new Blob(parts, { type: "application/json" });
}
