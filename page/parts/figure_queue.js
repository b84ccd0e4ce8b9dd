// Computes figures of the tensors of a table while it is shown: standard deviation, largest absolute, share of zeros. First those of
// samples, then those of all elements.

import { getJson, isAborted } from "../api.js";
import { kMostUnasked, kSampledRows, kSmallTensor } from "./amounts.js";

// Requests that run at once: the server computes each with all its processors.
const kAtOnce = 2;

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

// Whether a tensor has numbers that can be read at all.
const isReadable = (row) => row.numbers && !row.refused && row.parameters > 0;

// About how many bytes a sample of a tensor reads.
function sampleBytesOf({ shape, bytes }) {
  const lines = shape.slice(0, -1).reduce((product, side) => product * side, 1);
  return Math.ceil(bytes * Math.min(1, kSampledRows / Math.max(1, lines)));
}

function figureOf({ std, min, max, zeros, count, sample }) {
  const largest = min === undefined ? null : Math.max(Math.abs(min), Math.abs(max));
  return { std: std ?? null, largest, zeros: count > 0 ? zeros / count : null, isSample: sample, error: null };
}

export class FigureQueue {
  #known = new Map(); // figures by the indices of tensors
  #running = new Map();
  #wanted = [];
  #isAllWanted = false;
  #isRemoteWanted = false;
  #onChange = () => {};

  // `parameters` of requests name the model.
  constructor(parameters) {
    this.parameters = parameters;
  }

  // {std, largest, zeros, isSample, error} of a row of the table; null while it is not known.
  figureOf(row) {
    const none = { std: null, largest: null, zeros: null, isSample: false, error: null };
    return isReadable(row) ? (this.#known.get(row.index) ?? null) : none;
  }

  // Computes the figures of `rows`, in this order, until stop(); `onChange()` is called after each.
  want(rows, onChange) {
    this.#wanted = rows;
    this.#onChange = onChange;
    this.#startNext();
  }

  stop() {
    this.#onChange = () => {};
    this.#wanted = [];
    for (const aborter of this.#running.values()) aborter.abort();
    this.#running.clear();
  }

  // Reads all elements of the tensors whose figures are those of samples, however large they are.
  readAll() {
    this.#isAllWanted = true;
    this.#startNext();
  }

  // Reads also from servers.
  readRemote() {
    this.#isRemoteWanted = true;
    this.#startNext();
  }

  // What is known of `rows`: counts, the bytes that samples would transfer from servers, and those that all elements have.
  stateOf(rows) {
    const figures = rows.map((row) => this.figureOf(row));
    const samples = rows.filter((_, i) => figures[i]?.isSample);
    const remote = this.#isRemoteWanted ? [] : rows.filter((row, i) => figures[i] === null && !row.ready);
    return {
      count: rows.length,
      known: figures.filter((figure) => figure !== null).length,
      samples: samples.length,
      remoteBytes: sum(remote.map(sampleBytesOf)),
      unreadBytes: this.#isFullWanted(samples) ? 0 : sum(samples.map(({ bytes }) => bytes)),
    };
  }

  #isFullWanted(samples) {
    if (this.#isAllWanted) return true;
    return samples.every(({ ready }) => ready) && sum(samples.map(({ bytes }) => bytes)) <= kMostUnasked;
  }

  // The next request: samples come before all elements.
  #nextJob() {
    const rows = this.#wanted.filter((row) => isReadable(row) && !this.#running.has(row.index));
    const unknown = rows.find((row) => !this.#known.has(row.index) && (row.ready || this.#isRemoteWanted));
    if (unknown) return [unknown, unknown.ready && unknown.parameters <= kSmallTensor ? "full" : "sample"];
    const samples = rows.filter((row) => this.#known.get(row.index)?.isSample);
    return samples.length > 0 && this.#isFullWanted(samples) ? [samples[0], "full"] : null;
  }

  #startNext() {
    while (this.#running.size < kAtOnce) {
      const job = this.#nextJob();
      if (job === null) return;
      this.#compute(...job);
    }
  }

  async #compute({ index }, mode) {
    const aborter = new AbortController();
    this.#running.set(index, aborter);
    try {
      const found = await getJson("statistics", { ...this.parameters, t: index, mode }, aborter.signal);
      this.#known.set(index, figureOf(found));
    } catch (error) {
      if (isAborted(error) || aborter.signal.aborted) return;
      this.#known.set(index, { std: null, largest: null, zeros: null, isSample: false, error });
    } finally {
      if (this.#running.get(index) === aborter) this.#running.delete(index);
    }
    this.#onChange();
    this.#startNext();
  }
}
