// What a folding tree knows: which prefixes are open, and the entries of those that were loaded.

import { useCallback, useEffect, useReducer, useRef, useState } from "../lib.js";
import { isAborted } from "../api.js";

// Whether an entry stands for several numbered neighbours.
export const isFold = (entry) => entry.first !== null && entry.first !== undefined && entry.first !== entry.last;

const childOf = (entry, parent, level) => ({
  id: entry.under ?? `tensor ${entry.leaf}`,
  entry,
  level,
  parent,
  isGroup: entry.leaf === null || entry.leaf === undefined,
});

// The group to open by itself when `entries` are first shown: the only one with more than one tensor, or null.
export function soleGroupOf(entries) {
  const large = entries.filter((entry) => entry.tensors > 1);
  const isGroup = large.length === 1 && (large[0].leaf === null || large[0].leaf === undefined);
  return isGroup ? large[0].under : null;
}

// Groups that open by themselves are at most so deep.
const kMostOpened = 8;
const depthOf = (prefix) => prefix.split(/[./]/).length;

// The visible items from top to bottom. `lists` has the entries of each loaded prefix, `opened` the open prefixes. An item without an
// entry has a `role`: "each" lists a fold one by one, "fold" ends that, "more" says that the server left entries out.
export function itemsOf(lists, opened) {
  const items = [];
  const add = (prefix, parent, level) => {
    const list = lists.get(prefix);
    if (!list?.entries) return;
    const children = list.entries.map((entry) => childOf(entry, parent, level));
    if (parent && isFold(parent.entry)) {
      children.push({ id: `each ${prefix}`, role: "each", level, parent, fold: parent });
    }
    if (list.isEach) children.push({ id: `fold ${prefix}`, role: "fold", level, parent, prefix });
    if (list.truncated) children.push({ id: `more ${prefix}`, role: "more", level, parent });
    children.forEach((child, place) => {
      items.push(Object.assign(child, { place: place + 1, of: children.length }));
      if (child.isGroup && opened.has(child.id)) add(child.id, child, level + 1);
    });
  };
  add("", null, 1);
  return items;
}

// Loads the entries of what is open by `load(prefix, each, signal)`; another `source` begins anew, but what was open stays open, and
// the old entries stay until the first ones of the new source are there.
export function useTree(load, source) {
  const [opened, setOpened] = useState(() => new Set());
  const [lists, setLists] = useState(() => new Map());
  const [error, setError] = useState(null);
  const [attempt, retry] = useReducer((count) => count + 1, 0);
  // Prefixes whose children are listed one by one.
  const unfolded = useRef(new Set());
  // Groups that were opened by themselves once: when a person closes one, it stays closed.
  const known = useRef(new Set());
  const pending = useRef(new Set());
  const aborter = useRef(null);
  const latestLoad = useRef(load);
  latestLoad.current = load;

  const fetchList = useCallback((prefix, isFirst) => {
    const { signal } = aborter.current;
    const requests = pending.current;
    if (requests.has(prefix)) return;
    requests.add(prefix);
    const isEach = unfolded.current.has(prefix);
    latestLoad
      .current(prefix, isEach, signal)
      .then((list) => {
        if (signal.aborted) return;
        setLists((last) => (isFirst ? new Map() : new Map(last)).set(prefix, { ...list, isEach }));
        const sole = soleGroupOf(list.entries);
        if (sole === null || known.current.has(sole) || depthOf(sole) > kMostOpened) return;
        known.current.add(sole);
        setOpened((last) => new Set(last).add(sole));
      })
      .catch((fault) => {
        if (!isAborted(fault) && !signal.aborted) setError(fault);
      })
      .finally(() => requests.delete(prefix));
  }, []);

  useEffect(() => {
    aborter.current = new AbortController();
    pending.current = new Set();
    setError(null);
    fetchList("", true);
    return () => aborter.current.abort();
  }, [source, attempt]);

  const items = itemsOf(lists, opened);
  const missing = items.filter((item) => item.isGroup && opened.has(item.id) && !lists.has(item.id)).map((item) => item.id);
  useEffect(() => {
    if (!error) for (const prefix of missing) fetchList(prefix, false);
  }, [missing.join("\n"), error]);

  const setOpen = useCallback((id, isOpen) => {
    setOpened((last) => {
      const next = new Set(last);
      if (isOpen) next.add(id);
      else next.delete(id);
      return next;
    });
  }, []);
  // Lists the numbered neighbours of `fold` one by one instead.
  const unfold = useCallback((fold) => {
    const prefix = fold.parent?.id ?? "";
    unfolded.current.add(prefix);
    fetchList(prefix, false);
  }, []);
  const fold = useCallback((prefix) => {
    unfolded.current.delete(prefix);
    fetchList(prefix, false);
  }, []);
  return { items, isLoaded: lists.size > 0, isOpen: (id) => opened.has(id), setOpen, unfold, fold, error, retry };
}
