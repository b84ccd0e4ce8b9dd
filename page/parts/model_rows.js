// The rows of a directory's models: read a few at a time, those in sight first. A directory that takes long is read only as far as it is
// in sight, until a person wants all of it.

import { useCallback, useEffect, useMemo, useReducer, useRef } from "../lib.js";
import { getJson, isAborted } from "../api.js";

// A browser has six connections to a server; two are left for what a person does meanwhile.
const kAtOnce = 4;
const kPatience = 10_000;
const kRedraw = 120;

// A row that was read so long ago is read again: a model may have changed.
const kFresh = 30_000;

// The rows of the directory that was shown last, by their paths: on the way back from a model they are there at once.
let kept = { key: null, rows: new Map(), times: new Map() };

class RowReader {
  constructor(paths, { rows, times }, onChange) {
    Object.assign(this, { paths, rows, times, onChange, next: 0, wanted: [], isAll: false, error: null });
    this.asked = new Set(paths.filter((path) => performance.now() - times.get(path) < kFresh));
    this.running = 0;
    this.aborter = new AbortController();
    this.began = performance.now();
  }

  isDone() {
    return this.asked.size === this.paths.length && this.running === 0;
  }

  isPaused() {
    return !this.isAll && performance.now() - this.began > kPatience && this.asked.size < this.paths.length;
  }

  // The path to read next, or undefined.
  take() {
    const inSight = this.wanted.find((path) => !this.asked.has(path));
    if (inSight !== undefined || this.isPaused()) return inSight;
    while (this.next < this.paths.length && this.asked.has(this.paths[this.next])) this.next += 1;
    return this.paths[this.next];
  }

  async read(path) {
    try {
      const row = await getJson("entry", { path }, this.aborter.signal);
      this.rows.set(path, row);
      this.times.set(path, performance.now());
    } catch (error) {
      if (isAborted(error)) return;
      if (error.status === 0) this.error = error;
      else this.rows.set(path, { path, kind: "model", error: error.message });
    }
    this.running -= 1;
    this.onChange();
    this.work();
  }

  work() {
    while (this.running < kAtOnce && !this.error) {
      const path = this.take();
      if (path === undefined) return;
      this.asked.add(path);
      this.running += 1;
      this.read(path);
    }
  }

  want(paths) {
    this.wanted = paths;
    this.work();
  }

  readAll() {
    this.isAll = true;
    this.work();
    this.onChange();
  }
}

// The paths of the elements in sight, told to `onChange` when they change; [a function for the ref of each element].
function useInSight(onChange) {
  const latest = useRef(onChange);
  latest.current = onChange;
  const watch = useMemo(() => {
    const inSight = new Set();
    const observer = new IntersectionObserver((changes) => {
      for (const { target, isIntersecting } of changes) {
        if (isIntersecting) inSight.add(target.dataset.path);
        else inSight.delete(target.dataset.path);
      }
      latest.current([...inSight]);
    });
    return observer;
  }, []);
  useEffect(() => () => watch.disconnect(), [watch]);
  return useCallback((element) => element && watch.observe(element), [watch]);
}

// The rows of `entries`, of the directory `key`: {rows, version, isDone, isPaused, readAll(), error, retry(), observe}. `rows` maps paths to
// responses of the endpoint `entry`; `version` changes with them; `observe` is the ref of the element of a row, which has data-path.
export function useModelRows(entries, key) {
  const [version, redraw] = useReducer((count) => count + 1, 0);
  const [attempt, retry] = useReducer((count) => count + 1, 0);
  const reader = useMemo(() => {
    if (kept.key !== key) kept = { key, rows: new Map(), times: new Map() };
    let timer = null;
    const onChange = () => {
      timer ??= setTimeout(() => {
        timer = null;
        redraw();
      }, kRedraw);
    };
    return new RowReader(
      entries.filter(({ kind }) => kind !== "file").map(({ path }) => path),
      kept,
      onChange,
    );
  }, [entries, key, attempt]);
  useEffect(() => {
    reader.work();
    return () => reader.aborter.abort();
  }, [reader]);
  const observe = useInSight((paths) => reader.want(paths));
  return {
    rows: reader.rows,
    version,
    isDone: reader.isDone(),
    isPaused: reader.isPaused(),
    readAll: () => reader.readAll(),
    error: reader.error,
    retry,
    observe,
  };
}
