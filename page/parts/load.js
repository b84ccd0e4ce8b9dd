// Loading and its failure, as every part of the page shows them: nothing for the first 150 ms, then a word; a sentence with "Try again".

import { html, useCallback, useEffect, useState } from "../lib.js";
import { isAborted } from "../api.js";
import { clean } from "../format.js";

const kPatience = 150;

// Runs `load(signal)` when one of `dependencies` changes; a load that is no longer wanted is aborted. The last value stays until
// the next one is there. Returns {value, error, isLoading, retry}.
export function useLoad(load, dependencies) {
  const [state, setState] = useState({ value: undefined, error: null, isLoading: true });
  const [attempt, setAttempt] = useState(0);
  const retry = useCallback(() => setAttempt((count) => count + 1), []);
  useEffect(() => {
    const aborter = new AbortController();
    setState((last) => ({ ...last, error: null, isLoading: true }));
    const settle = (change) => {
      if (!aborter.signal.aborted) setState((last) => ({ ...last, isLoading: false, ...change }));
    };
    Promise.resolve()
      .then(() => load(aborter.signal))
      .then((value) => settle({ value, error: null }))
      .catch((error) => {
        if (!isAborted(error)) settle({ error });
      });
    return () => aborter.abort();
  }, [...dependencies, attempt]);
  return { ...state, retry };
}

// `text` after 150 ms, so that quick responses do not flicker.
export function Loading({ text = "Loading …" }) {
  const [isShown, setIsShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setIsShown(true), kPatience);
    return () => clearTimeout(timer);
  }, []);
  return html`<p class="loading" role="status">${isShown ? text : ""}</p>`;
}

// The sentence of an error and a button that tries again.
export function Failure({ error, retry }) {
  return html`<div class="notice danger" role="alert">
    <p>${clean(error?.message ?? error)}</p>
    ${retry && html`<button type="button" onClick=${() => retry()}>Try again</button>`}
  </div>`;
}
