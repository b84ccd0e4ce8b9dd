// Loads the planes of a heat map while its window moves: only the last request counts, and a large window comes first as a sample.

import { getBytes, isAborted } from "../api.js";
import { areaOf } from "./window.js";

// Windows of more elements than this are first read as a sample.
const kSampleAbove = 4 << 20;

// Requests while a window moves are at least this many milliseconds apart.
const kInterval = 50;

// A request that takes longer than this is reported as busy.
const kPatience = 300;

export class PlaneLoader {
  #timer = null;
  #last = -Infinity;
  #wanted = null;
  #aborter = new AbortController();

  // `listener` has onPlane({bytes, grid}, request, isLast), onBusy(BOOL), onError(error) and onPart(bytes or null): bytes that a complete
  // picture of the window would read, if that is more than a person should wait for without being asked.
  constructor(listener) {
    this.listener = listener;
  }

  // Asks for a plane. A request has `parameters` (without a window), `window`, `cells` [rows, columns], `scale` {low, high} or null
  // (automatic), `bytesPerElement`, and `mostBytes` that may be read without a question.
  ask(request) {
    this.#wanted = request;
    if (this.#timer !== null) return;
    this.#timer = setTimeout(() => this.#send(), Math.max(0, this.#last + kInterval - performance.now()));
  }

  // Forgets what was asked.
  close() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#aborter.abort();
  }

  #send() {
    this.#timer = null;
    this.#last = performance.now();
    this.#aborter.abort();
    this.#aborter = new AbortController();
    this.#load(this.#wanted, this.#aborter.signal);
  }

  async #load(request, signal) {
    const bytes = areaOf(request.window) * request.bytesPerElement;
    const isPart = bytes > request.mostBytes;
    const timer = setTimeout(() => this.listener.onBusy(true), kPatience);
    try {
      const isLarge = isPart || areaOf(request.window) > kSampleAbove;
      const isComplete = isLarge && (await this.#loadOne(request, "sample", isPart, signal));
      if (!isComplete && !isPart) await this.#loadOne(request, "full", true, signal);
      this.listener.onPart(isPart && !isComplete ? bytes : null);
    } catch (error) {
      if (!isAborted(error)) this.listener.onError(error);
    } finally {
      clearTimeout(timer);
    }
    if (!signal.aborted) this.listener.onBusy(false);
  }

  // Whether the plane is of all elements of its window.
  async #loadOne(request, mode, isLast, signal) {
    const { parameters, window, cells, scale } = request;
    const limits = { rows: cells[0], columns: cells[1], low: scale?.low, high: scale?.high };
    const plane = await getBytes("heatmap", { ...parameters, window: window.join(","), ...limits, mode }, signal);
    signal.throwIfAborted();
    this.listener.onPlane(plane, request, isLast || !plane.grid.sample);
    return !plane.grid.sample;
  }
}
