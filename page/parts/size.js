// The width of an element while the page changes, for what draws on a canvas.

import { useEffect, useRef, useState } from "../lib.js";

// [reference for the element, its width in whole pixels; 0 until it is known].
export function useWidth() {
  const reference = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(reference.current);
    return () => observer.disconnect();
  }, []);
  return [reference, width];
}
