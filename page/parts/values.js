// The numbers of single elements, of one tensor or of the difference of two, asked for when a person stays at a place.

import { getJson, isAborted } from "../api.js";

// A request has at most this many rows and columns.
export const kMostValues = 64;

const kPatience = 120;

const kNumbers = { NaN, inf: Infinity, "-inf": -Infinity };

const numbersOf = ({ rows }) => rows.map((row) => row.map((value) => kNumbers[value] ?? value));

// The numbers [row][column] of a window. `parameters` are those of a heat map; with `t2` it is the difference of both tensors.
async function load({ model2, t2, names2, metric, v, ...parameters }, window, signal) {
  const ask = (tensor) => getJson("values", { ...parameters, ...tensor, window: window.join(",") }, signal);
  if (t2 === undefined) return numbersOf(await ask({ v }));
  const [a, b] = (await Promise.all([ask({}), ask({ model: model2, t: t2, names: names2 })])).map(numbersOf);
  return a.map((row, y) => row.map((value, x) => value - b[y][x]));
}

export class ValuesLoader {
  #timer = null;
  #aborter = new AbortController();

  // `onValues({window, rows})` is called when they are there.
  constructor(onValues) {
    this.onValues = onValues;
  }

  // Asks for a window after a short while; what was asked before is forgotten.
  ask(parameters, window) {
    this.close();
    this.#aborter = new AbortController();
    const { signal } = this.#aborter;
    this.#timer = setTimeout(async () => {
      try {
        const rows = await load(parameters, window, signal);
        if (!signal.aborted) this.onValues({ window, rows });
      } catch (error) {
        // Numbers are an addition to the picture, whose own failure is reported.
        if (!isAborted(error)) this.onValues(null);
      }
    }, kPatience);
  }

  close() {
    clearTimeout(this.#timer);
    this.#aborter.abort();
  }
}
