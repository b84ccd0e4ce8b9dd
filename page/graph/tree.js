// The tree of groups of a graph: by names, by repetition, and where neither makes groups small enough, by position.

import { groupsOfName } from "./names.js";
import { classesOf } from "./identical.js";
import { orderOf } from "./order.js";
import { repeatedRuns } from "./repetition.js";

export const kMostVisible = 300; // elements of a group that is opened
const kMostLoose = 100; // operators that no group divides further
const kChunk = 100; // items of an artificial group
const kLeastGrouped = 16; // operators; fewer are shown at once

// Groups are numbered from 0, the whole graph. An item of a group is a node (its number) or a group (~number).
export class GroupTree {
  parents = [-1];
  labels = [""];
  items = [[]];

  constructor(graph) {
    this.graph = graph;
    this.order = orderOf(graph);
    this.#byNames();
    this.#dissolve();
    this.#hoist();
    // Groups that are made here are looked at, too.
    for (let group = 0; group < this.items.length; ++group) this.#divide(group);
    this.#index();
  }

  #add(parent, label) {
    this.parents.push(parent);
    this.labels.push(label);
    return this.items.push([]) - 1;
  }

  #byNames() {
    const { nodes, isFolded } = this.graph;
    const children = [new Map()]; // of each group: label → group
    const isGrouped = nodes.filter((node, index) => node.kind === "operator" && !isFolded[index]).length >= kLeastGrouped;
    for (const index of this.order) {
      if (isFolded[index]) continue;
      const node = nodes[index];
      let group = 0;
      for (const label of isGrouped && node.kind === "operator" ? groupsOfName(node.name) : []) {
        let child = children[group].get(label);
        if (child === undefined) {
          child = this.#add(group, label);
          children.push(new Map());
          children[group].set(label, child);
          this.items[group].push(~child);
        }
        group = child;
      }
      this.items[group].push(index);
    }
  }

  // A group of one item is replaced by the item. Children have larger numbers than their parents.
  #dissolve() {
    const only = new Map();
    for (let group = this.items.length - 1; group > 0; --group) {
      this.items[group] = this.items[group].map((item) => only.get(item) ?? item);
      if (this.items[group].length !== 1) continue;
      const [item] = this.items[group];
      if (item < 0) this.labels[~item] = `${this.labels[group]}/${this.labels[~item]}`;
      only.set(~group, item);
      this.items[group] = [];
    }
    this.items[0] = this.items[0].map((item) => only.get(item) ?? item);
    this.#setParents();
  }

  #setParents() {
    this.items.forEach((items, group) => items.forEach((item) => item < 0 && (this.parents[~item] = group)));
  }

  // A group that has all operators of the graph is the graph.
  #hoist() {
    for (;;) {
      const inner = this.items[0].filter((item) => item < 0 || this.graph.nodes[item].kind === "operator");
      if (inner.length !== 1 || inner[0] >= 0) return;
      const group = ~inner[0];
      this.items[0] = this.items[0].flatMap((item) => (item === inner[0] ? this.items[group] : [item]));
      this.items[group] = [];
      this.#setParents();
    }
  }

  // Replaces items [begin, begin + count) by a group, which is returned as an item.
  #wrap(group, label, items) {
    const made = this.#add(group, label);
    this.items[made] = items;
    for (const item of items) if (item < 0) this.parents[~item] = made;
    return ~made;
  }

  #divide(group) {
    const isLoose = (item) => item >= 0 && this.graph.nodes[item].kind === "operator";
    if (this.items[group].filter(isLoose).length > kMostLoose) this.#divideByRepetition(group);
    while (this.items[group].length > kMostVisible && this.#visibleCount(group) > kMostVisible) {
      const [ends, items] = this.#withoutEnds(this.items[group]);
      const made = [];
      for (let begin = 0; begin < items.length; begin += kChunk) {
        made.push(this.#wrap(group, `part ${begin / kChunk + 1}`, items.slice(begin, begin + kChunk)));
      }
      this.items[group] = [...ends, ...made];
    }
  }

  // The inputs and outputs of the graph among items, unless they are many, and the others.
  #withoutEnds(items) {
    const isEnd = (item) => item >= 0 && this.graph.nodes[item].kind !== "operator";
    const ends = items.filter(isEnd);
    return ends.length > kChunk ? [[], items] : [ends, items.filter((item) => !isEnd(item))];
  }

  #signature(item) {
    if (item < 0) return `group ${this.labels[~item].replace(/\d+/g, "#")} ${this.items[~item].length}`;
    const node = this.graph.nodes[item];
    return node.kind === "operator" ? `${node.op} ${node.inputs.length}` : `end ${item}`;
  }

  #divideByRepetition(group) {
    const items = this.items[group];
    const made = [];
    let block = 0;
    let done = 0;
    for (const { start, period, repeats } of repeatedRuns(items.map((item) => this.#signature(item)))) {
      made.push(...items.slice(done, start));
      for (let repeat = 0; repeat < repeats; ++repeat) {
        const begin = start + repeat * period;
        made.push(this.#wrap(group, `block ${++block}`, items.slice(begin, begin + period)));
      }
      done = start + period * repeats;
    }
    this.items[group] = done === 0 ? items : made.concat(items.slice(done));
  }

  // How many elements a group shows when equal groups are shown once.
  #visibleCount(group) {
    this.#index();
    const groups = this.items[group].filter((item) => item < 0).map((item) => ~item);
    return this.items[group].length - groups.length + classesOf(this, groups).length;
  }

  // Sets what is looked up: the group of each node, and the nodes below group g in order: sorted[begin[g]] to sorted[end[g] - 1].
  #index() {
    this.groupOf = new Int32Array(this.graph.nodes.length);
    this.sorted = new Int32Array(this.graph.nodes.length);
    this.begin = new Int32Array(this.items.length);
    this.end = new Int32Array(this.items.length);
    let size = 0;
    const stack = [[0, 0]];
    while (stack.length > 0) {
      const top = stack.at(-1);
      const [group, at] = top;
      if (at === 0) this.begin[group] = size;
      if (at === this.items[group].length) {
        this.end[group] = size;
        stack.pop();
        continue;
      }
      top[1] += 1;
      const item = this.items[group][at];
      if (item < 0) {
        stack.push([~item, 0]);
      } else {
        this.groupOf[item] = group;
        this.sorted[size++] = item;
      }
    }
    this.#indexFolded();
  }

  // A node that is not drawn belongs to the group of its first reader, which follows it in the order.
  #indexFolded() {
    const { isFolded, readers } = this.graph;
    for (let at = this.order.length - 1; at >= 0; --at) {
      const node = this.order[at];
      if (isFolded[node]) this.groupOf[node] = this.groupOf[readers.list[readers.start[node]]];
    }
  }

  // The nodes below a group, in order.
  nodesOf(group) {
    return this.sorted.subarray(this.begin[group], this.end[group]);
  }

  // The groups around a group, the outermost first, and itself.
  pathOf(group) {
    const path = [];
    for (let each = group; each >= 0; each = this.parents[each]) path.unshift(each);
    return path;
  }
}
