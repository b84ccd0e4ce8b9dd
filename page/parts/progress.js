// Long computations of the server: a progress bar with a button that cancels.

import { html, useCallback, useEffect, useRef, useState } from "../lib.js";
import { isAborted, stream } from "../api.js";
import { formatBytes, formatPercent } from "../format.js";

const kNone = { value: null, progress: null, error: null, isRunning: false, isCancelled: false };

// A computation that is started and cancelled by functions: {value, progress, error, isRunning, isCancelled, start, cancel}. A new start
// ends the last one; the last value stays until the next one is there.
export function useStream() {
  const [state, setState] = useState(kNone);
  const aborter = useRef(new AbortController());
  const start = useCallback(async (path, parameters) => {
    aborter.current.abort();
    aborter.current = new AbortController();
    const { signal } = aborter.current;
    const change = (changes) => {
      if (!signal.aborted) setState((last) => ({ ...last, ...changes }));
    };
    setState((last) => ({ ...kNone, value: last.value, isRunning: true }));
    try {
      const value = await stream(path, parameters, { signal, onProgress: (progress) => change({ progress }) });
      change({ ...kNone, value });
    } catch (error) {
      if (!isAborted(error)) change({ error, isRunning: false, progress: null });
    }
  }, []);
  const cancel = useCallback(() => {
    aborter.current.abort();
    setState((last) => ({ ...last, isRunning: false, isCancelled: true, progress: null }));
  }, []);
  useEffect(() => () => aborter.current.abort(), []);
  return { ...state, start, cancel };
}

// The bar of a running computation. `progress` is null until the first report.
export function Progress({ progress, what, onCancel }) {
  const { done, total } = progress ?? { done: 0, total: 0 };
  const share = total > 0 ? Math.min(1, done / total) : 0;
  const text = total > 0 ? `${formatBytes(done)} of ${formatBytes(total)} (${formatPercent(share)})` : "";
  return html`<div class="running">
    <progress max="1" value=${progress ? share : undefined} aria-label=${what}></progress>
    <span>${what}</span>
    <span class="muted">${text}</span>
    <button type="button" onClick=${onCancel}>Cancel</button>
  </div>`;
}
