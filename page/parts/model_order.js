// The columns of the table of models, and its rows in order.

const kCollator = new Intl.Collator("en", { numeric: true });

// `valueOf(entry, row)` is what a column is sorted by: a text, a number, or null for what is not known, which comes last.
export const kColumns = [
  { id: "name", title: "name", valueOf: (entry) => entry.name },
  { id: "kind", title: "kind", valueOf: (_, row) => row?.what || null },
  { id: "parameters", title: "parameters", isNumber: true, valueOf: (_, row) => row?.parameters ?? null },
  { id: "quantised", title: "quantised", valueOf: (_, row) => row?.quantised || null },
  { id: "size", title: "size", isNumber: true, valueOf: (_, row) => row?.bytes ?? null },
  { id: "context", title: "context", isNumber: true, valueOf: (_, row) => row?.context ?? null },
  { id: "state", title: "state", valueOf: (_, row) => row?.error ?? (row?.alerts?.length > 0 ? row.alerts.join("\n") : null) },
];

// The order that a click on a column begins with: the largest number, the first text.
export const firstOrder = (column) => (column.isNumber ? "desc" : "asc");

function compare(a, b) {
  return typeof a === "number" ? a - b : kCollator.compare(a, b);
}

// The words of all that the table shows of an entry.
function textOf(entry, row) {
  const { what, quantised, title, format, license, alerts = [], error } = row ?? {};
  return [entry.name, what, quantised, title, format, license, ...alerts, error && `cannot be read ${error}`]
    .join("\n")
    .toLowerCase();
}

// [{entry, row}…] with all words of `filter`; directories first if they are sorted by name, what is not known last.
export function sorted(entries, rows, filter, { column: id, order }) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const { valueOf } = kColumns.find((column) => column.id === id);
  const shown = entries
    .filter(({ kind }) => kind !== "file")
    .map((entry) => ({ entry, row: rows.get(entry.path), value: valueOf(entry, rows.get(entry.path)) }))
    .filter(({ entry, row }) => words.length === 0 || words.every((word) => textOf(entry, row).includes(word)));
  const sign = order === "desc" ? -1 : 1;
  return shown.sort((a, b) => {
    if ((a.value === null) !== (b.value === null)) return a.value === null ? 1 : -1;
    const difference = a.value === null ? 0 : sign * compare(a.value, b.value);
    return difference || kCollator.compare(a.entry.name, b.entry.name);
  });
}
