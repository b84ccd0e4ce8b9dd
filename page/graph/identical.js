// Finds groups that are equal: the same operators, numbers as attributes, inner edges, and types and shapes of their inputs.

import { patternOf } from "./names.js";

// Two hashes of 32 bits (FNV-1a with two offsets), so that different groups are taken for equal only by an attack.
class Hash {
  one = 0x811c9dc5 | 0;
  two = 0x1b873593 | 0;

  number(value) {
    this.one = Math.imul(this.one ^ value, 0x01000193);
    this.two = Math.imul(this.two ^ value ^ 0x5bd1e995, 0x01000193);
    this.two ^= this.two >>> 13;
  }

  text(text) {
    this.number(text.length);
    for (let at = 0; at < text.length; ++at) this.number(text.charCodeAt(at));
  }

  get digest() {
    return `${this.one >>> 0} ${this.two >>> 0}`;
  }
}

const isNumber = (value) => typeof value === "number" || typeof value === "boolean";

// Attributes that are numbers, or lists of a few. Texts may be names, and instructions are numbered.
function addAttributes(hash, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("(")) continue;
    const isShort = Array.isArray(value) && value.length <= 16 && value.every(isNumber);
    if (isNumber(value) || isShort) hash.text(`${name} ${value}`);
  }
}

// Where only inputs and outputs of the graph have types, these would set the first and the last layer apart.
function addKind(hash, value, isTyped) {
  const kind = value.isConstant ? "tensor" : "value";
  hash.text(isTyped ? `${kind} ${value.dtype} ${value.shape?.join(" ") ?? "?"} ${value.text ?? ""}` : kind);
}

// The digest of a group. `place` has room for a number for each node.
function digestOf({ graph, labels }, group, members, place) {
  const hash = new Hash();
  hash.text(patternOf(labels[group]));
  hash.number(members.length);
  members.forEach((node, at) => (place[node] = at));
  for (const index of members) {
    const node = graph.nodes[index];
    hash.text(node.op);
    addAttributes(hash, node.attributes);
    hash.number(node.outputs.length);
    for (const input of node.inputs) {
      const value = input < 0 ? null : graph.values[input];
      const producer = value?.producer ?? -1;
      if (producer >= 0 && members[place[producer]] === producer) {
        hash.number(place[producer]);
        hash.number(value.slot);
      } else if (value) {
        addKind(hash, value, graph.isTyped);
      } else {
        hash.number(-1);
      }
    }
  }
  return hash.digest;
}

// The classes of equal groups among `groups`, each a list in their order.
export function classesOf(tree, groups) {
  const place = new Int32Array(tree.graph.nodes.length);
  const classes = new Map();
  for (const group of groups) {
    const members = tree.sorted.subarray(tree.begin[group], tree.end[group]);
    const digest = digestOf(tree, group, members, place);
    if (classes.has(digest)) classes.get(digest).push(group);
    else classes.set(digest, [group]);
  }
  return [...classes.values()];
}
