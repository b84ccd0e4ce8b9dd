// Whether a media query holds, while the page changes.

import { useEffect, useState } from "../lib.js";

// `query` is a MediaQueryList.
export function useMedia(query) {
  const [isTrue, setIsTrue] = useState(query.matches);
  useEffect(() => {
    const update = () => setIsTrue(query.matches);
    query.addEventListener("change", update);
    return () => query.removeEventListener("change", update);
  }, [query]);
  return isTrue;
}
