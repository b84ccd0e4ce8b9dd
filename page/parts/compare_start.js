// The start of a comparison: the models of the source, to choose A and then B. The model that was opened last is A.

import { html, useMemo, useState } from "../lib.js";
import { getJson } from "../api.js";
import { clean, formatBytes, formatParameters, shorten } from "../format.js";
import { directoryOf, isDropped, link } from "../state.js";
import { Directory } from "./directory.js";
import { useLoad } from "./load.js";

// What A is, as a card.
function Chosen({ path, onChange }) {
  const { value } = useLoad((signal) => getJson("entry", { path }, signal), [path]);
  const isRead = value?.kind === "model" && value.error === undefined;
  const parts = isRead
    ? [
        clean(value.what),
        value.parameters && `${formatParameters(value.parameters)} parameters`,
        clean(value.quantised),
        formatBytes(value.bytes),
      ]
    : [];
  return html`<div class="card chosen">
    <span>A: <span class="name" title=${clean(path)}>${shorten(path, 120)}</span></span>
    <span class="muted">${parts.filter(Boolean).join(" · ") || "…"}</span>
    <button type="button" onClick=${onChange}>Choose another</button>
  </div>`;
}

// For a source in which there is nothing to compare with.
export function SingleModel() {
  return html`<p class="notice">
    This source is a single model. To compare two, open a directory that has both: weightfs open DIRECTORY; or drop both into the
    page of weightfs open.
  </p>`;
}

// `a` is the path of A, or undefined. A model that was dropped with others is compared with these.
export function CompareStart({ location: shown, source, a }) {
  const isOfDrop = shown.dir === undefined && a !== undefined && isDropped(a);
  const location = isOfDrop ? { ...shown, dir: directoryOf(a) } : shown;
  const [isOther, setIsOther] = useState(false);
  const present = isOther ? undefined : a;
  const target = useMemo(() => {
    const hrefOf = ({ path }, isDirectory) => {
      if (isDirectory) return link({ dir: path, q: null }, { keep: true });
      if (present === undefined) return link({ view: "compare", a: path, dir: location.dir });
      return path === present ? null : link({ view: "compare", a: present, b: path });
    };
    return { hrefOf, note: "is A" };
  }, [present, location.dir]);
  if (source?.single && location.dir === undefined) return html`<${SingleModel} />`;
  return html`
    ${present !== undefined && html`<${Chosen} path=${present} onChange=${() => setIsOther(true)} />`}
    <h2>${present === undefined ? "Choose the model A" : "Choose the model B"}</h2>
    <div class="stack" onClick=${(event) => event.target.closest("a") && setIsOther(false)}>
      <${Directory} location=${location} target=${target} />
    </div>
  `;
}
