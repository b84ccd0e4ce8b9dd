// Which equal groups of an opened group are one element: all of a class, or where other elements lead from one to the next and
// back, only those that follow each other. So in a group of at most kMostVisible elements (tree.js), no edge leads back that does
// not in the graph.

import { classesOf } from "./identical.js";
import { neighbours } from "./order.js";

// The elements that are in a cycle, or between two, as a list of 0 and 1.
function inCycles(count, from, to) {
  const isLeft = new Uint8Array(count).fill(1);
  for (const [sources, targets] of [
    [from, to],
    [to, from],
  ]) {
    const { start, list } = neighbours(count, sources, targets);
    const waiting = new Int32Array(count);
    for (let edge = 0; edge < sources.length; ++edge) if (isLeft[sources[edge]]) waiting[targets[edge]] += 1;
    const ends = [];
    for (let each = 0; each < count; ++each) if (isLeft[each] && waiting[each] === 0) ends.push(each);
    while (ends.length > 0) {
      const end = ends.pop();
      isLeft[end] = 0;
      for (let edge = start[end]; edge < start[end + 1]; ++edge) {
        const next = list[edge];
        if (isLeft[next] && (waiting[next] -= 1) === 0) ends.push(next);
      }
    }
  }
  return isLeft;
}

// The elements of the items of a group, of which a class of groups is one: {numberOf (item → number), count}.
function numbered(items, classes) {
  const numberOf = new Map();
  classes.forEach((members, number) => members.forEach((member) => numberOf.set(~member, number)));
  let count = classes.length;
  for (const item of items) if (item >= 0) numberOf.set(item, count++);
  return { numberOf, count };
}

function edgesBetween(tree, { numberOf }) {
  const { graph } = tree;
  const place = new Int32Array(graph.nodes.length).fill(-1);
  for (const [item, number] of numberOf) {
    if (item >= 0) place[item] = number;
    else for (const node of tree.nodesOf(~item)) place[node] = number;
  }
  const [from, to] = [[], []];
  for (let edge = 0; edge < graph.from.length; ++edge) {
    const [source, target] = [place[graph.from[edge]], place[graph.to[edge]]];
    if (source < 0 || target < 0 || source === target) continue;
    from.push(source);
    to.push(target);
  }
  return { from, to };
}

// The groups among the items of `group` as lists of those that are one element, in their order. They are at most `most` with the
// operators; if there would be more, all equal ones are one.
export function foldedGroups(tree, group, most) {
  const items = tree.items[group];
  const classes = classesOf(
    tree,
    items.filter((item) => item < 0).map((item) => ~item),
  );
  if (classes.every((members) => members.length === 1)) return classes;
  const elements = numbered(items, classes);
  const { from, to } = edgesBetween(tree, elements);
  const isLeft = inCycles(elements.count, from, to);
  const runs = [];
  let last = -1; // the element in a cycle before
  for (const item of items) {
    const number = elements.numberOf.get(item);
    if (!isLeft[number]) continue;
    if (item < 0 && number === last) runs.at(-1).push(~item);
    else if (item < 0) runs.push([~item]);
    last = number;
  }
  const kept = classes.filter((_, number) => !isLeft[number]);
  const operators = elements.count - classes.length;
  return kept.length + runs.length + operators > most ? classes : [...kept, ...runs];
}
