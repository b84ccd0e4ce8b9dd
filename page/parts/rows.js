// The rows of a table that the server holds: pages are fetched as they become visible, and the farthest ones are dropped.

import { useCallback, useLayoutEffect, useReducer, useRef, useState } from "../lib.js";
import { isAborted } from "../api.js";

export const kPageRows = 200;
const kMostPages = 40;
// While a person drags the thumb, pages that flash by are not fetched.
const kPause = 60;

// The pages of one list. `fetchPage(offset, signal)` resolves to {total, rows}, with what else is known of the list.
class Pages {
  constructor(fetchPage, onChange) {
    this.fetchPage = fetchPage;
    this.onChange = onChange;
    this.total = 0;
    this.more = {};
    this.pages = new Map();
    this.pending = new Map();
    this.error = null;
  }

  rowAt(index) {
    return this.pages.get(Math.floor(index / kPageRows))?.[index % kPageRows] ?? null;
  }

  async fetch(page) {
    const aborter = new AbortController();
    this.pending.set(page, aborter);
    try {
      const { total, rows, ...more } = await this.fetchPage(page * kPageRows, aborter.signal);
      if (aborter.signal.aborted) return;
      this.total = total;
      if (page === 0) this.more = more;
      this.pages.set(page, rows);
      this.error = null;
    } catch (error) {
      if (isAborted(error) || aborter.signal.aborted) return;
      this.error = error;
    } finally {
      if (this.pending.get(page) === aborter) this.pending.delete(page);
    }
    this.onChange();
  }

  // Fetches what is missing of the pages `from` to `to`; stops what is no longer wanted.
  want(from, to) {
    for (const [page, aborter] of this.pending) {
      if (page >= from && page <= to) continue;
      aborter.abort();
      this.pending.delete(page);
    }
    if (this.error) return;
    for (let page = from; page <= to; page += 1) {
      if (!this.pages.has(page) && !this.pending.has(page)) this.fetch(page);
    }
    this.drop((from + to) / 2);
  }

  drop(middle) {
    const excess = this.pages.size - kMostPages;
    if (excess <= 0) return;
    const farthest = [...this.pages.keys()].sort((a, b) => Math.abs(b - middle) - Math.abs(a - middle));
    for (const page of farthest.slice(0, excess)) this.pages.delete(page);
  }

  stop() {
    for (const aborter of this.pending.values()) aborter.abort();
    this.pending.clear();
  }
}

// The rows of the list that `key` names. The rows of the last key stay until the first page of the new one is there.
// Returns {isReady, list, version, total, more, rowAt(index), want(first, last), error, retry}: the rows are others when `list` or `version`
// is, and `more` is what else was known with the first page.
export function useRows(fetchPage, key) {
  const [pages, setPages] = useState(null);
  const [error, setError] = useState(null);
  const [attempt, setAttempt] = useState(0);
  const [version, redraw] = useReducer((count) => count + 1, 0);
  const timer = useRef(null);

  // Not useEffect(), which waits for the next frame: a key of the search is answered sooner.
  useLayoutEffect(() => {
    let isShown = false;
    const next = new Pages(fetchPage, () => isShown && redraw());
    let isWanted = true;
    next.fetch(0).then(() => {
      if (!isWanted) return;
      isShown = true;
      setError(next.error);
      if (!next.error) setPages(next);
    });
    return () => {
      isWanted = false;
      clearTimeout(timer.current);
      next.stop();
    };
  }, [key, attempt]);

  const want = useCallback(
    (first, last) => {
      if (!pages || last <= first) return;
      const [from, to] = [Math.floor(first / kPageRows), Math.floor((last - 1) / kPageRows)];
      clearTimeout(timer.current);
      timer.current = setTimeout(() => pages.want(from, to), kPause);
    },
    [pages],
  );
  const retry = useCallback(() => setAttempt((count) => count + 1), []);
  return {
    isReady: pages !== null,
    list: pages,
    version,
    total: pages?.total ?? 0,
    more: pages?.more ?? {},
    rowAt: (index) => pages?.rowAt(index) ?? null,
    want,
    error: error ?? pages?.error ?? null,
    retry,
  };
}
