// A list of which only the visible rows exist. Browsers cannot scroll more than some ten million pixels, so a higher list has a lower
// scroll height: the thumb is mapped in proportion, while the wheel and the keys move by true rows.

import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";

const kMostPixels = 8_000_000;
const kOverscan = 8;

const clamp = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));

// The geometry of a list of `count` rows in a box that is `height` pixels high.
function geometryOf(count, rowHeight, height) {
  const full = count * rowHeight;
  const native = Math.min(full, kMostPixels);
  const fullRange = Math.max(0, full - height);
  const nativeRange = Math.max(0, native - height);
  return { native, fullRange, nativeRange, isScaled: full > native };
}

// Size of the element `box`, without its sticky head.
function useSize(box, headHeight) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const measure = () => setSize({ width: box.current.clientWidth, height: box.current.clientHeight - headHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, [headHeight]);
  return size;
}

// Returns {box, onScroll, width, first, last, spacer, offsetOf(row), show(row), moveTo(top), page, isMeasured}: `box` is the ref of the
// scrolling element, rows first to last (exclusive) are to be drawn at offsetOf(row) in an element that is `spacer` pixels high, and
// `page` is the step of the keys for a page. Before the first layout (isMeasured) the box has no size.
export function useVirtual({ count, rowHeight, headHeight = 0 }) {
  const box = useRef(null);
  const { width, height } = useSize(box, headHeight);
  const [position, setPosition] = useState({ native: 0, top: 0 });
  const latest = useRef(position);
  const geometry = geometryOf(count, rowHeight, height);
  const { native, fullRange, nativeRange, isScaled } = geometry;

  const settle = useCallback((next) => {
    latest.current = next;
    setPosition(next);
  }, []);

  // Scrolls to `wanted`, in pixels of the whole list.
  const moveTo = useCallback(
    (wanted) => {
      const top = clamp(wanted, 0, fullRange);
      box.current.scrollTop = isScaled ? (top / fullRange) * nativeRange : top;
      settle({ native: box.current.scrollTop, top });
    },
    [fullRange, nativeRange, isScaled],
  );

  const onScroll = useCallback(() => {
    const scrollTop = box.current.scrollTop;
    // The event of moveTo() itself.
    if (scrollTop === latest.current.native) return;
    settle({ native: scrollTop, top: isScaled ? clamp((scrollTop / nativeRange) * fullRange, 0, fullRange) : scrollTop });
  }, [fullRange, nativeRange, isScaled]);

  // Without this a turn of the wheel would skip rows in a list whose scroll height is reduced.
  useEffect(() => {
    if (!isScaled) return undefined;
    const element = box.current;
    const turn = (event) => {
      if (event.ctrlKey || event.shiftKey || event.deltaY === 0) return;
      event.preventDefault();
      const unit = [1, rowHeight, height][event.deltaMode];
      moveTo(latest.current.top + event.deltaY * unit);
    };
    element.addEventListener("wheel", turn, { passive: false });
    return () => element.removeEventListener("wheel", turn);
  }, [isScaled, moveTo, rowHeight, height]);

  // Scrolls until `row` is visible: as little as possible, or so that it is in the middle.
  const show = useCallback(
    (row, { isCentred = false } = {}) => {
      const rowTop = row * rowHeight;
      const present = latest.current.top;
      const isAbove = rowTop < present;
      if (!isAbove && rowTop + rowHeight <= present + height) return;
      if (isCentred) moveTo(rowTop - (height - rowHeight) / 2);
      else moveTo(isAbove ? rowTop : rowTop + rowHeight - height);
    },
    [moveTo, rowHeight, height],
  );

  // A list that became shorter cannot stay beyond its end.
  const top = clamp(position.top, 0, fullRange);
  const first = Math.max(0, Math.floor(top / rowHeight) - kOverscan);
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + kOverscan);
  const nativeTop = isScaled ? position.native : top;
  return {
    box,
    onScroll,
    width,
    first,
    last,
    spacer: native,
    offsetOf: (row) => nativeTop + row * rowHeight - top,
    show,
    moveTo,
    page: Math.max(1, Math.floor(height / rowHeight) - 1),
    isMeasured: height > 0,
  };
}
