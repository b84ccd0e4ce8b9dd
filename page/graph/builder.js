// A graph in the form that every format is read into: nodes, the values between them, and the edges that follow from them.

import { foldedNodes } from "./constants.js";
import { neighbours } from "./order.js";

// How many operators all graphs of a model may have together: more would fill the memory of the browser.
export const kMostOperators = 250000;

export const listOf = (value) => (Array.isArray(value) ? value : []);
export const textOf = (value) =>
  typeof value === "string" ? value : value === null || value === undefined ? "" : String(value);

// An object that is neither null nor a list.
export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function shapeOf(shape) {
  return Array.isArray(shape) ? shape.map((size) => (size === null ? "?" : size)) : null;
}

// Collects nodes and values.
// A value is {name, dtype, shape, isConstant, text, producer, slot}: `producer` is the node that computes it, or -1, and `slot` its
// place among the outputs of that node.
// A node is {kind, op, name, inputs, outputs, attributes}: `inputs` and `outputs` are indices of values, -1 for one left out.
export class GraphBuilder {
  nodes = [];
  values = [];
  constants = 0; // operators that are constants and were left out
  #keys = new Map();

  // `isTyped`: whether the values between operators have types. `folds`: whether operators without data are shown as constants.
  constructor({ isTyped, folds = true }) {
    this.isTyped = isTyped;
    this.folds = folds;
  }

  // The index of the value with this key; `describe` is called for a new one.
  value(key, describe) {
    const known = this.#keys.get(key);
    if (known !== undefined) return known;
    const found = describe();
    const index = this.values.length;
    this.values.push({
      name: textOf(found.name),
      dtype: textOf(found.dtype ?? found.type),
      shape: shapeOf(found.shape),
      isConstant: found.isConstant === true,
      text: found.text ?? null,
      producer: -1,
      slot: 0,
    });
    this.#keys.set(key, index);
    return index;
  }

  #add(node) {
    const index = this.nodes.push(node) - 1;
    node.outputs.forEach((output, slot) => {
      if (output >= 0 && this.values[output].producer < 0) Object.assign(this.values[output], { producer: index, slot });
    });
    return index;
  }

  operator({ op, name, inputs, outputs, attributes }) {
    return this.#add({ kind: "operator", op: textOf(op) || "(no operator)", name: textOf(name), inputs, outputs, attributes });
  }

  // An input of the graph. `op` says where it comes from.
  input(value, op = "Input") {
    return this.#add({ kind: "input", op, name: this.values[value].name, inputs: [], outputs: [value], attributes: null });
  }

  output(value) {
    return this.#add({
      kind: "output",
      op: "Output",
      name: this.values[value].name,
      inputs: [value],
      outputs: [],
      attributes: null,
    });
  }

  // The graph with its edges: edge i leads from node from[i] to node to[i]. An operator that reads its own output has none.
  // `readers` are those of each node, and `isFolded` the operators that are shown as constants of their readers.
  finish(title) {
    const from = [];
    const to = [];
    this.nodes.forEach((node, index) => {
      for (const input of node.inputs) {
        const producer = input < 0 ? -1 : this.values[input].producer;
        if (producer < 0 || producer === index) continue;
        from.push(producer);
        to.push(index);
      }
    });
    const readers = neighbours(this.nodes.length, from, to);
    const ends = { nodes: this.nodes, values: this.values, from, to };
    const isFolded = this.folds ? foldedNodes(ends, readers) : new Uint8Array(this.nodes.length);
    return {
      title,
      nodes: this.nodes,
      values: this.values,
      constants: this.constants + isFolded.reduce((sum, each) => sum + each, 0),
      isTyped: this.isTyped,
      isFolded,
      readers,
      from: Int32Array.from(from),
      to: Int32Array.from(to),
    };
  }
}
