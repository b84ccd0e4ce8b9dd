// Figures of tensors as columns of their table, and what is known of them.

import { html, useEffect, useLayoutEffect, useMemo, useReducer } from "../lib.js";
import { clean, formatBytes, formatCount, formatNumber, formatPercent } from "../format.js";
import { FigureQueue } from "./figure_queue.js";
import { Failure, useLoad } from "./load.js";

// A table of more tensors is not sorted by figures: all of them would have to be known.
export const kMostSorted = 1000;

const kFormats = { std: formatNumber, largest: formatNumber, zeros: formatPercent };
const kTitles = { std: "std", largest: "largest", zeros: "zeros" };

export const isFigure = (column) => Object.hasOwn(kFormats, column);

// The figures of the model that was shown last are kept, for the way back from a tensor.
let last = { key: null, queue: null };

function queueOf(model) {
  const key = JSON.stringify([model.path, model.v]);
  if (last.key !== key) last = { key, queue: new FigureQueue({ model: model.path, v: model.v }) };
  return last.queue;
}

// The rows with the largest or the smallest figures first; those without one are last.
export function sortedByFigure(rows, queue, { column, order }) {
  const sign = order === "asc" ? 1 : -1;
  const numberOf = (row) => queue.figureOf(row)?.[column] ?? null;
  return rows.toSorted((a, b) => {
    const [x, y] = [numberOf(a), numberOf(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  });
}

// How much of the figures is known: what a sorted table is sorted by again.
function stageOf({ known, count, samples }) {
  if (known < count) return "pending";
  return samples > 0 ? "sample" : "exact";
}

// The figures of a table while `isOn`. `loadAll(signal)` resolves to the response with all rows of the table, of which there are `total`;
// of a larger table than kMostSorted those are computed that are passed to show(rows). Returns {queue, all, isWhole, total, prefix, state,
// stage, version, show, error, retry}.
export function useFigures({ model, isOn, total, loadAll, listKey }) {
  const queue = queueOf(model);
  const [version, redraw] = useReducer((count) => count + 1, 0);
  const isWhole = total > 0 && total <= kMostSorted;
  const { value, error, retry } = useLoad(
    async (signal) => (isOn && isWhole ? { listKey, ...(await loadAll(signal)) } : null),
    [isOn, isWhole, listKey],
  );
  const all = isOn && value?.listKey === listKey ? value.tensors : null;
  // Before the effects of the table, which ask for what it shows.
  useLayoutEffect(() => () => queue.stop(), [queue, isOn, listKey]);
  useEffect(() => {
    if (all) queue.want(all, redraw);
  }, [queue, all]);
  const show = (rows) => {
    if (isOn && !isWhole) queue.want(rows, redraw);
    else if (all) queue.want([...rows, ...all], redraw);
  };
  const state = useMemo(() => (all ? queue.stateOf(all) : null), [all, version]);
  const stage = state ? stageOf(state) : "pending";
  return { queue, all, isWhole, total, prefix: value?.prefix, state, stage, version, show, error, retry };
}

function figureCell(column, queue) {
  return (row) => {
    const figure = queue.figureOf(row);
    if (figure === null) return html`<span class="muted">…</span>`;
    if (figure.error) return html`<span title=${clean(figure.error.message)}>–</span>`;
    const text = kFormats[column](figure[column]);
    return figure.isSample ? html`<span title="of a sample of 64 rows">≈ ${text}</span>` : text;
  };
}

// The columns of the figures.
export function figureColumns(queue, isSortable) {
  return Object.entries(kTitles).map(([id, title]) => ({
    id,
    title,
    cell: figureCell(id, queue),
    isNumber: true,
    isSortable,
    width: 92,
    tallWidth: id === "zeros" ? 68 : 92,
  }));
}

// What is known, and buttons for what is read only when a person asks for it.
export function FiguresStatus({ figures, isSorted }) {
  const { queue, isWhole, total, state, stage, error, retry } = figures;
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (total === 0 || (isWhole && !state)) return null;
  if (!state)
    return html`<p class="muted">
      Statistics are computed for the rows that are shown. Only a table of at most ${formatCount(kMostSorted)} tensors can be
      sorted by them; this one has ${formatCount(total)}. A search or a filter makes it smaller.
    </p>`;
  const { count, known, samples, remoteBytes, unreadBytes } = state;
  return html`<div class="toolbar figures-status">
    <span class="muted">
      Statistics of ${formatCount(known)} of ${formatCount(count)} tensors${samples > 0 && `; ${formatCount(samples)} from samples (≈)`}.
      ${isSorted && stage === "pending" && " The table is sorted when all are known."}
    </span>
    ${
      remoteBytes > 0 &&
      html`<button type="button" onClick=${() => queue.readRemote()}>
        Read samples from the server (about ${formatBytes(remoteBytes)})
      </button>`
    }
    ${
      unreadBytes > 0 &&
      html`<button type="button" onClick=${() => queue.readAll()}>Read all elements (${formatBytes(unreadBytes)})</button>`
    }
  </div>`;
}
