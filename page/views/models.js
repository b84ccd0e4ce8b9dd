// The models of a source that has more than one: each with what a person asks first.

import { html, useCallback, useMemo } from "../lib.js";
import { shorten } from "../format.js";
import { Directory } from "../parts/directory.js";
import { go, link } from "../state.js";

// A directory that has nothing but one model opens that.
const onlyModelOf = ({ entries, files }) =>
  entries.length === 1 && files === 0 && entries[0].kind === "model" ? entries[0].path : null;

const nameOf = (path) => path.slice(path.lastIndexOf("/") + 1);

export default function ModelsView({ location, source }) {
  const target = useMemo(
    () => ({
      hrefOf: ({ path }, isDirectory) => (isDirectory ? link({ model: null, dir: path }) : link({ model: path })),
    }),
    [],
  );
  const onList = useCallback((list) => {
    const only = onlyModelOf(list);
    if (only !== null) go({ model: only, dir: null }, { replace: true });
  }, []);
  const title = location.dir ? nameOf(location.dir) : (source?.source ?? "Models");
  return html`<div class="stack">
    <h1>${shorten(title, 120)}</h1>
    <${Directory} location=${location} target=${target} onList=${onList} />
  </div>`;
}
