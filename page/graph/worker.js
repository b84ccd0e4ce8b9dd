// The worker of the graph view: it reads graph.json, groups the nodes, lays out groups, and finds nodes.

import { detailsOf } from "./details.js";
import { elementsOf } from "./elements.js";
import { classesOf } from "./identical.js";
import { layOut } from "./layout.js";
import { modelExplorerFile } from "./model_explorer.js";
import { readGraphs } from "./read.js";
import { findNodes } from "./search.js";
import { GroupTree } from "./tree.js";

let graphs = [];
let shapeOf = new Map(); // the name of a tensor → {dtype, shape}
let graphIndexOf = new Map(); // of graphs that are attributes
let shown = null; // the graph that was asked for last: {index, graph, tree, readers}

function viewOf(index) {
  if (shown?.index === index) return shown;
  if (!graphs[index]) throw new Error(`The model has no graph ${index + 1}.`);
  shown = null; // so that two graphs are not in memory at the same time
  const graph = graphs[index].build();
  for (const value of graph.values) if (value.isConstant && value.shape === null) Object.assign(value, shapeOf.get(value.name));
  shown = { index, graph, tree: new GroupTree(graph), readers: graph.readers };
  return shown;
}

function parsed(bytes) {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new Error("The file graph.json is not valid JSON.");
  }
}

const kRequests = {
  read({ bytes, inputNames, tensors }) {
    shapeOf = new Map(tensors.map(([name, dtype, shape]) => [name, { dtype, shape }]));
    graphs = readGraphs(parsed(bytes), inputNames && new Set(inputNames));
    graphIndexOf = new Map(graphs.map(({ source }, index) => [source, index]));
    return graphs.map(({ title, operators }) => ({ title: title.slice(0, 200), operators }));
  },

  // A group that does not exist is the whole graph; `node` chooses the group that it is in.
  layOut({ graph: index, group: wanted, node }) {
    const { graph, tree } = viewOf(index);
    const isNode = graph.nodes[node] !== undefined;
    const asked = wanted ?? (isNode ? tree.groupOf[node] : 0);
    const group = tree.items[asked]?.length > 0 ? asked : 0;
    const parent = tree.parents[group];
    return {
      graph: index,
      group,
      path: tree.pathOf(group).map((each) => ({ group: each, label: tree.labels[each].slice(0, 1000) })),
      siblings: group === 0 ? [] : siblingsOf(tree, parent, group),
      operators: graph.nodes.filter((each, at) => each.kind === "operator" && !graph.isFolded[at]).length,
      constants: graph.constants,
      ...layOut(elementsOf(tree, group)),
    };
  },

  details({ graph: index, node }) {
    const view = viewOf(index);
    return view.graph.nodes[node] === undefined ? null : detailsOf(view, node, graphIndexOf);
  },

  modelExplorerFile({ label }) {
    shown = null; // so that two graphs are not in memory at the same time
    return modelExplorerFile(graphs, label, graphIndexOf);
  },

  find({ graph: index, text }) {
    return findNodes(viewOf(index), text);
  },
};

// The groups that are equal to a group beside it, itself too; at most 1,000.
function siblingsOf(tree, parent, group) {
  const groups = tree.items[parent].filter((item) => item < 0).map((item) => ~item);
  const equal = classesOf(tree, groups).find((members) => members.includes(group));
  return equal.slice(0, 1000).map((each) => ({ group: each, label: tree.labels[each].slice(0, 200) }));
}

addEventListener("message", ({ data: { id, request, parameters } }) => {
  try {
    postMessage({ id, result: kRequests[request](parameters) });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
});
