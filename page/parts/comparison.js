// What a comparison of two models found: rows of the tensors that differ, and their order.

// Which tensors the indices of a comparison name, as parameters of requests: a repository is compared as a GGUF of it.
export function namesOf({ mapped_names: mapped }) {
  return { names: mapped?.source === "a" ? "gguf" : null, names2: mapped?.source === "b" ? "gguf" : null };
}

// Tensors that differ or have another name, from the response of `compare`: {name, newName, change, a, b, stat, noStat, indices, names},
// where `names` is that of namesOf().
export function rowsOf(found) {
  const { changed, renamed, indices } = found;
  const names = namesOf(found);
  const shapeText = ({ shape }) => shape.join(",");
  const changes = changed.map(({ name, change, a, b, stat, no_stat: noStat }) => ({
    name,
    newName: null,
    change: shapeText(a) !== shapeText(b) ? "other shape" : change === "type" ? "other type" : "other numbers",
    a,
    b,
    // The distribution of the differences is not shown, and may be most of the response.
    stat: stat ? { ...stat, differences: undefined } : null,
    noStat: noStat ?? null,
    indices: indices[name] ?? null,
    names,
  }));
  const moves = renamed.map(({ name, new_name: newName, dtype, shape }) => ({
    name,
    newName,
    change: "renamed",
    a: { dtype, shape },
    b: { dtype, shape },
    stat: null,
    noStat: "equal",
    indices: indices[name] ?? null,
    names,
  }));
  return [...changes, ...moves];
}

// The number that a column sorts by; null is sorted last.
const kSortNumbers = {
  snr: ({ stat }) => stat?.snr_db,
  error: ({ stat }) => stat?.relative_error,
  cosine: ({ stat }) => stat?.cosine,
  max: ({ stat }) => stat?.max,
};

const compareTexts = new Intl.Collator("en", { numeric: true }).compare;

// The rows in the order of a column; those without a number are last, except that what cannot be compared is the worst of all.
export function sorted(rows, { column, order }) {
  const sign = order === "asc" ? 1 : -1;
  const numberOf = kSortNumbers[column];
  if (!numberOf) return rows.toSorted((a, b) => sign * compareTexts(a[column], b[column]));
  const isIncomparable = (row) => row.noStat !== null && row.change !== "renamed";
  return rows.toSorted((a, b) => {
    if (isIncomparable(a) !== isIncomparable(b)) return isIncomparable(a) ? -1 : 1;
    const [x, y] = [numberOf(a) ?? null, numberOf(b) ?? null];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  });
}

// The elements that deviations would read.
export function elementsOf(rows) {
  const ofShape = ({ shape }) => shape.reduce((product, side) => product * side, 1);
  return rows
    .filter(({ change }) => change === "other numbers" || change === "other type")
    .reduce((sum, { a }) => sum + ofShape(a), 0);
}

// The row of a pair of tensors, or undefined.
export const rowOfPair = (rows, t, t2) => rows.find(({ indices }) => indices?.[0] === t && indices[1] === t2);
