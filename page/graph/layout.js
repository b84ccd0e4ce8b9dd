// Positions of the elements of a group, by dagre. Chains are laid out as one tall element, which takes a fraction of the time.

import { clean } from "../format.js";
import { Graph, layout } from "../vendor/dagre.js";
import { neighbours } from "./order.js";

const kGap = 36; // between the elements of a chain, and between rows; a shape stands in it
const kBeside = 24; // between neighbours in a row
const kMostSpan = 120; // rows that all edges together pass by; longer edges are drawn straight
const kMostEdges = 900; // that dagre gets

const kLeastWidth = 88;
const kMostWidth = 250;
const kTitle = 8; // pixels for a letter
const kLine = 6.8;
const kTitleHeight = 28;
const kLineHeight = 16;
const kGroupLine = "0,000 operators"; // as wide as what a group says of itself

// Wide letters, such as Chinese, count twice.
function widthOf(text, letter) {
  let units = 0;
  for (const character of clean(text.slice(0, 60))) units += character.codePointAt(0) >= 0x1100 ? 2 : 1;
  return units * letter + 24;
}

function sized(element) {
  const title = widthOf(element.title, kTitle) + (element.count > 1 ? 48 : 0);
  const lines = element.kind === "group" ? [kGroupLine] : element.lines;
  const width = Math.max(title, kLeastWidth, ...lines.map((line) => widthOf(line, kLine)));
  const height = kTitleHeight + kLineHeight * lines.length;
  return { ...element, width: Math.round(Math.min(width, kMostWidth)), height };
}

// For each element the next one of its chain, and the one before; -1 without one.
function chainsOf(count, edges) {
  const readers = new Int32Array(count);
  const sources = new Int32Array(count);
  for (const { from, to } of edges) {
    readers[from] += 1;
    sources[to] += 1;
  }
  const next = new Int32Array(count).fill(-1);
  const before = new Int32Array(count).fill(-1);
  for (const { from, to } of edges) {
    if (readers[from] !== 1 || sources[to] !== 1) continue;
    next[from] = to;
    before[to] = from;
  }
  return { next, before };
}

// Chains as lists of elements; a chain that is a circle is cut.
function listChains(count, edges) {
  const { next, before } = chainsOf(count, edges);
  const chainOf = new Int32Array(count).fill(-1);
  const chains = [];
  const follow = (first) => {
    const chain = [];
    for (let each = first; each >= 0 && chainOf[each] < 0; each = next[each]) {
      chainOf[each] = chains.length;
      chain.push(each);
    }
    chains.push(chain);
  };
  for (let each = 0; each < count; ++each) if (before[each] < 0) follow(each);
  for (let each = 0; each < count; ++each) if (chainOf[each] < 0) follow(each);
  return { chains, chainOf };
}

// Whether an edge is a link of a chain, which needs no route.
const isLink = (chains, chainOf, { from, to }) => {
  const chain = chains[chainOf[from]];
  return chainOf[from] === chainOf[to] && chain.indexOf(to) === chain.indexOf(from) + 1;
};

// The row of each chain, by the longest path to it. An edge that leads back, as in a cycle, is not counted.
function rowsOf(count, edges) {
  const { start, list } = neighbours(
    count,
    edges.map((edge) => edge.from),
    edges.map((edge) => edge.to),
  );
  const waiting = new Int32Array(count);
  for (const edge of edges) waiting[edge.to] += 1;
  const rows = new Int32Array(count);
  const isDone = new Uint8Array(count);
  const ready = [];
  for (let each = 0; each < count; ++each) if (waiting[each] === 0) ready.push(each);
  let next = 0; // the first element that may not be done, in case of a cycle
  for (let done = 0; done < count; ) {
    while (isDone[next]) next += 1;
    const each = ready.pop() ?? next;
    if (isDone[each]) continue;
    isDone[each] = 1;
    done += 1;
    for (let at = start[each]; at < start[each + 1]; ++at) {
      if (isDone[list[at]]) continue;
      rows[list[at]] = Math.max(rows[list[at]], rows[each] + 1);
      if ((waiting[list[at]] -= 1) === 0) ready.push(list[at]);
    }
  }
  return rows;
}

// The edges that dagre gets: those that pass by few rows, as far as the time permits.
function shortEdges(count, edges) {
  const rows = rowsOf(count, edges);
  const span = (edge) => Math.max(0, Math.abs(rows[edge.to] - rows[edge.from]) - 1);
  const sorted = [...edges].sort((one, other) => span(one) - span(other)).slice(0, kMostEdges);
  let sum = 0;
  return new Set(sorted.filter((edge) => (sum += span(edge)) <= kMostSpan));
}

// Elements without edges, in rows below the others.
function placeAlone(elements, top) {
  const columns = Math.ceil(Math.sqrt(elements.length));
  elements.forEach((element, index) => {
    element.x = (index % columns) * (kMostWidth + kBeside) + kMostWidth / 2;
    element.y = top + Math.floor(index / columns) * (element.height + kGap) + element.height / 2;
  });
}

// Runs dagre over the chains, and places their elements. Returns the points of each edge that dagre got.
function placeChains({ elements, chains, chainOf, edges }) {
  const graph = new Graph();
  graph.setGraph({ rankdir: "TB", ranker: "tight-tree", nodesep: kBeside, edgesep: 12, ranksep: kGap });
  graph.setDefaultEdgeLabel(() => ({}));
  const used = new Set(edges.flatMap(({ from, to }) => [chainOf[from], chainOf[to]]));
  for (const chain of used) {
    const height = chains[chain].reduce((sum, each) => sum + elements[each].height + kGap, -kGap);
    const width = Math.max(...chains[chain].map((each) => elements[each].width));
    graph.setNode(String(chain), { width, height });
  }
  const between = edges.filter(({ from, to }) => chainOf[from] !== chainOf[to]);
  const short = shortEdges(
    chains.length,
    between.map((edge) => ({ edge, from: chainOf[edge.from], to: chainOf[edge.to] })),
  );
  for (const { from, to } of short) graph.setEdge(String(from), String(to), {});
  layout(graph);
  for (const chain of used) {
    const { x, y, height } = graph.node(String(chain));
    let top = y - height / 2;
    for (const each of chains[chain]) {
      Object.assign(elements[each], { x, y: top + elements[each].height / 2 });
      top += elements[each].height + kGap;
    }
  }
  return new Map([...short].map(({ edge, from, to }) => [edge, graph.edge(String(from), String(to)).points]));
}

// The points of an edge from the rim of an element to the rim of another. dagre's first and last point are on rims of chains.
function pointsOf(elements, { from, to }, inner) {
  const [source, target] = [elements[from], elements[to]];
  const isDown = source.y <= target.y;
  const rim = (element, isLower) => ({ x: element.x, y: element.y + (isLower ? element.height / 2 : -element.height / 2) });
  return [rim(source, isDown), ...inner.slice(1, -1), rim(target, !isDown)].map(({ x, y }) => [Math.round(x), Math.round(y)]);
}

// {elements with x, y (their centres), width and height; edges with points; width, height} of the drawing.
export function layOut({ elements: found, edges }) {
  const elements = found.map(sized);
  const { chains, chainOf } = listChains(elements.length, edges);
  const points = edges.length > 0 ? placeChains({ elements, chains, chainOf, edges }) : new Map();
  const connected = elements.filter((element) => element.x !== undefined);
  const bottom = connected.reduce((most, element) => Math.max(most, element.y + element.height / 2 + kGap), 0);
  placeAlone(
    elements.filter((element) => element.x === undefined),
    bottom,
  );
  const right = (element) => element.x + element.width / 2;
  return {
    elements,
    edges: edges.map((edge) => ({
      ...edge,
      isFar: !points.has(edge) && !isLink(chains, chainOf, edge), // drawn straight, across others
      points: pointsOf(elements, edge, points.get(edge) ?? []),
    })),
    width: Math.max(0, ...elements.map(right)),
    height: Math.max(0, ...elements.map((element) => element.y + element.height / 2)),
  };
}
