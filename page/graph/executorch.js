// Reads the graph.json of ExecuTorch: {"methods": [{"name", "inputs", "outputs", "values", "chains"}]}.

import { GraphBuilder, isObject, listOf, textOf } from "./builder.js";

export const isExecutorch = (document) => Array.isArray(document.methods);

// All methods: {title, source}.
export function listExecutorch(document) {
  return document.methods
    .filter(isObject)
    .map((source, index) => ({ title: textOf(source.name) || `method ${index}`, source }));
}

const instructionsOf = (source) => listOf(source.chains).flatMap((chain) => listOf(chain?.instructions).filter(isObject));

export const countExecutorch = ({ source }) => instructionsOf(source).length;

// The values of a method. Memory is written more than once, so a value of the graph is an id and the number of its writes.
class Memory {
  constructor(builder, values) {
    this.builder = builder;
    this.values = values;
    this.writes = new Map();
    this.writers = new Map(); // place in memory → the id that was written there last
  }

  #placeOf(id) {
    const place = this.values[id]?.allocation;
    return isObject(place) ? `${place.memory_id} ${place.offset}` : null;
  }

  isList(id) {
    return /TensorList$/.test(textOf(this.values[id]?.kind));
  }

  // The ids of a list of tensors, or the id itself.
  idsOf(id) {
    return this.isList(id) ? listOf(this.values[id].items).filter(Number.isInteger) : [id];
  }

  isKnown(id) {
    return this.writes.has(id) || this.values[id]?.constant === true || this.values[id]?.mutable === true;
  }

  #describe(id) {
    const value = isObject(this.values[id]) ? this.values[id] : {};
    if (value.kind === "Tensor") return { ...value, isConstant: !this.writes.has(id) && this.isKnown(id) };
    const text = value.value ?? value.items ?? null;
    return { name: "", dtype: textOf(value.kind), text: text === null ? null : JSON.stringify(text).slice(0, 200) };
  }

  // A value that nothing has written may be another name of memory that was, such as a reshaped tensor.
  read(wanted) {
    if (!Number.isInteger(wanted) || wanted < 0) return -1;
    const id = this.isKnown(wanted) ? wanted : (this.writers.get(this.#placeOf(wanted)) ?? wanted);
    return this.builder.value(`${id} ${this.writes.get(id) ?? 0}`, () => this.#describe(id));
  }

  write(id) {
    if (!Number.isInteger(id) || id < 0) return -1;
    this.writes.set(id, (this.writes.get(id) ?? 0) + 1);
    if (this.#placeOf(id) !== null) this.writers.set(this.#placeOf(id), id);
    return this.read(id);
  }
}

// The ids that a call reads and writes. A kernel's last argument is what it returns; those before it may be the same memory.
function argumentsOf(instruction, memory) {
  const args = listOf(instruction.args);
  if (instruction.call === "MoveCall") return [[instruction.move_from], [instruction.move_to]];
  if (instruction.call === "JumpFalseCall") return [[instruction.cond_value_index], []];
  if (instruction.call === "FreeCall") return [[instruction.value_index], []];
  if (instruction.call === "DelegateCall") {
    // The arguments of a delegate are not divided: what nothing has written before is an output.
    return [args.filter((id) => memory.isKnown(id)), args.filter((id) => !memory.isKnown(id))];
  }
  const outputs = memory.idsOf(args.at(-1));
  const inputs = args.slice(0, -1);
  const written = new Set(outputs);
  while (inputs.length > 0 && written.has(inputs.at(-1))) inputs.pop();
  return [inputs, args.length === 0 ? [] : outputs];
}

export function buildExecutorch({ title, source }) {
  const builder = new GraphBuilder({ isTyped: true, folds: false });
  const memory = new Memory(builder, listOf(source.values));
  for (const id of listOf(source.inputs)) {
    const value = memory.write(id);
    if (value >= 0) builder.input(value);
  }
  for (const { id, call, op, delegate, args, ...others } of instructionsOf(source)) {
    const [reads, writes] = argumentsOf({ call, args, ...others }, memory);
    builder.operator({
      op: textOf(op || delegate || call),
      name: "",
      inputs: reads.flatMap((each) => memory.idsOf(each)).map((each) => memory.read(each)),
      outputs: writes.map((each) => memory.write(each)),
      attributes: { "(instruction)": id, "(call)": call, ...others },
    });
  }
  for (const id of listOf(source.outputs)) {
    const value = memory.read(id);
    if (value >= 0) builder.output(value);
  }
  return builder.finish(title);
}
