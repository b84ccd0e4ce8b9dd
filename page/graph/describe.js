// What a box says of an operator below its title: a name that tells something, the sizes of its kernel, the shapes of its weights.

import { listOf } from "./builder.js";

const kMostShapes = 2; // of weights
const kMostItems = 8; // of a list
const kMostText = 24; // characters of an attribute

// What inputs are called by their place. Others have no name.
const kSlots = [
  [/conv|fully_?connected|linear|gemm|(^|::)addmm/i, ["", "W", "B"]],
  [/norm/i, ["", "scale", "B", "mean", "var"]],
  [/^(lstm|gru|rnn)/i, ["", "W", "R", "B"]],
  [/^(matmul|batch_?mat_?mul)/i, ["A", "B"]],
  [/^p_?relu/i, ["", "slope"]],
];

const isFew = (list) => list.length > 0 && list.length <= kMostItems && list.every(Number.isFinite);

// "3×3", or if it `isShort`, "3" of equal sizes.
function sizesText(value, isShort = false) {
  const list = Array.isArray(value) ? value : [value];
  if (!isFew(list)) return null;
  return isShort && list.every((size) => size === list[0]) ? String(list[0]) : list.join("×");
}

// Height and width that are attributes of their own, or a list.
function pairOf(attributes, list, high, wide) {
  for (const name of list) if (attributes[name] !== undefined) return attributes[name];
  if (Number.isFinite(attributes[high]) && Number.isFinite(attributes[wide])) return [attributes[high], attributes[wide]];
  return undefined;
}

const isOne = (value) => listOf(Array.isArray(value) ? value : [value]).every((size) => size === 1);

// "3×3, stride 2, groups 32".
function kernelText(attributes) {
  const kernel = pairOf(attributes, ["kernel_shape", "kernel_size", "ksize"], "filter_height", "filter_width");
  const stride = pairOf(attributes, ["strides", "stride"], "stride_h", "stride_w");
  const dilation = pairOf(attributes, ["dilations", "dilation"], "dilation_h_factor", "dilation_w_factor");
  const group = attributes.group ?? attributes.groups;
  const parts = [];
  const add = (name, value, isShort) => {
    const text = value === undefined ? null : sizesText(value, isShort);
    if (text !== null) parts.push(`${name}${text}`);
  };
  add("", kernel, false);
  if (stride !== undefined && !isOne(stride)) add("stride ", stride, true);
  if (dilation !== undefined && !isOne(dilation)) add("dilation ", dilation, true);
  if (Number.isFinite(group) && group > 1) parts.push(`groups ${group}`);
  const activation = attributes.fused_activation_function;
  if (typeof activation === "string" && activation !== "NONE") parts.push(activation.slice(0, kMostText));
  return parts.join(", ");
}

const kShown = ["axis", "axes", "perm", "to", "equation", "mode", "num_heads"];

function othersText(attributes) {
  for (const name of kShown) {
    const value = attributes[name];
    if (typeof value === "string" && value !== "") return `${name} ${value.slice(0, kMostText)}`;
    if (Number.isFinite(value)) return `${name} ${value}`;
    if (Array.isArray(value) && isFew(value)) return `${name} ${value.join(", ")}`;
  }
  return "";
}

const shapeText = (shape) => (shape.length === 0 ? "scalar" : shape.slice(0, kMostItems).join("×"));

// The constants that a node reads: [{slot, value, label}].
export function constantsOf(graph, node) {
  const names = kSlots.find(([pattern]) => pattern.test(node.op.slice(0, 100)))?.[1] ?? [];
  const found = [];
  node.inputs.forEach((input, slot) => {
    const value = input < 0 ? null : graph.values[input];
    if (!value) return;
    const isConstant = value.isConstant || (value.producer >= 0 && graph.isFolded[value.producer]);
    if (isConstant) found.push({ slot, value, label: names[slot] ?? "" });
  });
  return found;
}

// "W ⟨64×3×7×7⟩ B ⟨64⟩".
function weightsText(constants) {
  return constants
    .filter(({ value }) => value.shape !== null && value.shape.length > 0)
    .slice(0, kMostShapes)
    .map(({ value, label }) => `${label} ⟨${shapeText(value.shape)}⟩`.trim())
    .join(" ");
}

// Whether a name is only a number, or the operator and a number: "n12", "Conv_3", "node_7".
export function saysNothing(name, op) {
  const rest = name.toLowerCase().replace(/[\s._:/-]*\d*$/, "");
  return rest === "" || rest === op.toLowerCase() || /^(n|op|node|id|layer|value|output|tensor|t|v)$/.test(rest);
}

// The lines below the title of an operator. `name` is what is left of its name.
export function linesOf(graph, node, name) {
  const attributes = node.attributes ?? {};
  const kernel = kernelText(attributes) || othersText(attributes);
  return [saysNothing(name, node.op) ? "" : name, kernel, weightsText(constantsOf(graph, node))].filter(Boolean);
}

// The shape of a value that flows along an edge; "" if it is not known.
export const valueText = (value) => (value.shape === null ? "" : shapeText(value.shape));
