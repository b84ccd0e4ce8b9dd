// Names as paths of groups, and the common label of groups with similar names.

const kMostDepth = 12; // groups inside each other
const kMostCharacters = 4096; // of a name that are read
const kMostRanges = 6;

// The groups that a name is in: "/model/layers.0/mlp/Mul" → ["model", "layers.0", "mlp"]; "blk.0.attn.MatMul" → ["blk.0", "attn"].
export function groupsOfName(name) {
  // TFLite joins the names of fused operators by semicolons.
  const [first] = name.slice(0, kMostCharacters).split(";", 1);
  const hasSlash = first.includes("/");
  const parts = [];
  for (const part of first.split(hasSlash ? "/" : ".")) {
    if (part === "") continue;
    // A number belongs to the word before it.
    if (/^\d+$/.test(part) && parts.length > 0) parts[parts.length - 1] += hasSlash ? `/${part}` : `.${part}`;
    else parts.push(part);
  }
  return parts.slice(0, -1).slice(0, kMostDepth);
}

// A label without its numbers: groups with the same pattern may be equal.
export const patternOf = (label) => label.replace(/\d+/g, "#");

function rangesOf(numbers) {
  const ranges = [];
  for (const number of numbers) {
    const last = ranges.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([first, last]) =>
    first === last ? String(first) : last === first + 1 ? `${first}, ${last}` : `${first}…${last}`,
  );
}

// A label in three parts: before its last number, the number, and the rest; null without a number.
function dividedAtNumber(label) {
  let end = label.length;
  while (end > 0 && !/\d/.test(label[end - 1])) end -= 1;
  let begin = end;
  while (begin > 0 && /\d/.test(label[begin - 1])) begin -= 1;
  return begin === end ? null : [label.slice(0, begin), Number(label.slice(begin, end)), label.slice(end)];
}

// One label for several: "layers.0", "layers.1", "layers.2" → "layers.0…2".
export function commonLabel(labels) {
  if (labels.length === 1) return labels[0];
  const parts = labels.map(dividedAtNumber);
  const [first] = parts;
  const isAlike = parts.every((part) => part && first && part[0] === first[0] && part[2] === first[2]);
  if (!isAlike) return `${labels[0]}, …`;
  const ranges = rangesOf(parts.map((part) => part[1]).sort((one, other) => one - other));
  const shown = ranges.length > kMostRanges ? [...ranges.slice(0, kMostRanges), "…"] : ranges;
  return `${first[0]}${shown.join(", ")}${first[2]}`;
}
