// The elements of an opened group and the edges between them: its operators, its groups (equal ones once), and what is outside.

import { constantsOf, linesOf, valueText } from "./describe.js";
import { commonLabel } from "./names.js";
import { foldedGroups } from "./folding.js";
import { kMostVisible } from "./tree.js";

const kMostOutside = 24; // elements on each side
const kMostCharacters = 1000; // of a name that is sent to the page

const kMostPorts = 8; // constants that are drawn at a box
const kMostLines = 3; // below the title
const kLongTitle = 28; // characters

const shortened = (text) => (text.length > kMostCharacters ? `${text.slice(0, kMostCharacters)}…` : text);

// "Input float32 1×3×224×224".
function describedEnd(graph, { op, inputs, outputs }) {
  const { dtype, shape } = graph.values[[...inputs, ...outputs][0]];
  return [op, dtype, shape?.join("×") ?? ""].filter(Boolean).join(" ");
}

// An operator's name; a long one without its namespace, and without the word for a kernel that gets its output.
const titleOf = (op) => (op.length > kLongTitle ? op.replace(/^.*::/s, "").replace(/\.out$/, "") : op);

// `prefix` is what the names of all operators of the group have in common.
function elementOfNode(graph, index, prefix = "") {
  const node = graph.nodes[index];
  const isOperator = node.kind === "operator";
  const lines = isOperator ? linesOf(graph, node, node.name.slice(prefix.length)) : [describedEnd(graph, node)];
  return {
    key: `n${index}`,
    kind: node.kind,
    title: shortened(isOperator ? titleOf(node.op) : node.name || node.op),
    lines: lines.slice(0, kMostLines).map(shortened),
    ports: isOperator ? portsOf(graph, node) : [],
    name: shortened(node.name),
    node: index,
    count: 1,
  };
}

// The constants that an operator reads, each as a text: "W weight float32 64×3×7×7".
function portsOf(graph, node) {
  const constants = constantsOf(graph, node);
  const texts = constants
    .slice(0, kMostPorts)
    .map(({ value, label }) => shortened([label, value.name, value.dtype, valueText(value)].filter(Boolean).join(" ")));
  return constants.length > kMostPorts ? [...texts, `${constants.length - kMostPorts} more`] : texts;
}

// The beginning that the names of the operators among `items` share, up to a separator.
function commonPrefix(graph, items) {
  const names = items
    .filter((item) => item >= 0 && graph.nodes[item].kind === "operator")
    .map((item) => graph.nodes[item].name);
  if (names.length < 2) return "";
  let length = names[0].length;
  for (const name of names) {
    length = Math.min(length, name.length);
    let equal = 0;
    while (equal < length && name[equal] === names[0][equal]) equal += 1;
    length = equal;
  }
  const common = names[0].slice(0, length);
  return common.slice(0, Math.max(common.lastIndexOf("/"), common.lastIndexOf(".")) + 1);
}

function elementOfClass(tree, groups) {
  const [group] = groups;
  return {
    key: `g${group}`,
    kind: "group",
    title: shortened(commonLabel(groups.map((each) => tree.labels[each]))),
    lines: [],
    ports: [],
    name: "",
    group,
    count: groups.length,
    operators: tree.end[group] - tree.begin[group],
    inSeries: false,
  };
}

// The largest item around a node that does not contain the group whose ancestors are `around`.
function outermost(tree, node, around) {
  let item = node;
  for (let group = tree.groupOf[node]; !around.has(group); group = tree.parents[group]) item = ~group;
  return item;
}

// The elements outside a group that lead to it or from it. Those beyond kMostOutside are one element.
class Outside {
  constructor(tree, group, elements) {
    this.tree = tree;
    this.around = new Set(tree.pathOf(group).slice(0, -1));
    this.elements = elements;
    this.known = { from: new Map(), to: new Map() };
  }

  // The index of the element for a node, which is on the side "from" or "to" of the group.
  of(node, side) {
    const item = outermost(this.tree, node, this.around);
    const known = this.known[side];
    if (!known.has(item)) known.set(item, known.size < kMostOutside ? this.#element(item, side) : this.#rest(side));
    return known.get(item);
  }

  #element(item, side) {
    const { graph, labels, parents } = this.tree;
    const inner = item < 0 ? { title: shortened(labels[~item]), lines: [], name: "" } : elementOfNode(graph, item);
    return (
      this.elements.push({
        key: `${side}${item}`,
        kind: "outside",
        title: inner.title,
        lines: [`${side} ${item >= 0 && graph.nodes[item].kind !== "operator" ? inner.lines[0] : inner.name || "outside"}`],
        ports: [],
        name: inner.name,
        node: item < 0 ? undefined : item,
        group: item < 0 ? parents[~item] : this.tree.groupOf[item],
        count: 1,
      }) - 1
    );
  }

  #rest(side) {
    const { known } = this;
    known[`${side}Rest`] ??=
      this.elements.push({
        key: `${side}rest`,
        kind: "outside",
        title: "others",
        lines: [`${side} outside`],
        ports: [],
        name: "",
        count: 1,
      }) - 1;
    return known[`${side}Rest`];
  }
}

// {elements, edges}: an edge is {from, to, count, text} with indices of elements, and the shape of its value at the first edge that
// has it; edges inside an element are left out.
export function elementsOf(tree, group) {
  const { graph } = tree;
  const elements = [];
  const place = new Int32Array(graph.nodes.length).fill(-1); // the element of each node below the group
  const prefix = commonPrefix(graph, tree.items[group]);
  const classes = new Map(foldedGroups(tree, group, kMostVisible).map((members) => [members[0], members]));
  for (const item of tree.items[group]) {
    if (item >= 0) {
      place[item] = elements.push(elementOfNode(graph, item, prefix)) - 1;
      continue;
    }
    const members = classes.get(~item);
    if (members === undefined) continue; // it is shown by an equal group before it
    const index = elements.push(elementOfClass(tree, members)) - 1;
    for (const member of members) for (const node of tree.nodesOf(member)) place[node] = index;
  }
  const outside = new Outside(tree, group, elements);
  return { elements, edges: edgesOf(tree, { elements, place, outside, isWhole: group === 0 }) };
}

function edgesOf({ graph, groupOf }, { elements, place, outside, isWhole }) {
  const found = new Map();
  for (let edge = 0; edge < graph.from.length; ++edge) {
    const [source, target] = [graph.from[edge], graph.to[edge]];
    if (graph.isFolded[source] || graph.isFolded[target]) continue;
    let [from, to] = [place[source], place[target]];
    if (from < 0 && to < 0) continue;
    if (!isWhole && from < 0) from = outside.of(source, "from");
    if (!isWhole && to < 0) to = outside.of(target, "to");
    if (from === to) {
      if (elements[from].count > 1 && groupOf[source] !== groupOf[target]) elements[from].inSeries = true;
      continue;
    }
    const key = from * 4096 + to;
    if (found.has(key)) found.get(key).count += 1;
    else found.set(key, { from, to, count: 1, source, target });
  }
  return withTexts(graph, [...found.values()]);
}

// The value that leads from a node to another.
const valueBetween = (graph, source, target) =>
  graph.nodes[target].inputs.find((input) => input >= 0 && graph.values[input].producer === source) ?? -1;

// The edges with texts: several edges of one value have its shape once, and an edge for several values has none.
function withTexts(graph, edges) {
  const told = new Set();
  return edges.map(({ source, target, ...edge }) => {
    const value = edge.count === 1 ? valueBetween(graph, source, target) : -1;
    if (value < 0 || told.has(value)) return { ...edge, text: "" };
    told.add(value);
    return { ...edge, text: shortened(valueText(graph.values[value])) };
  });
}
