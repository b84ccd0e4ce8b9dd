// The texts of a model: chat templates with their special tokens marked, the system prompt, parameters, the licence.

import { html, useMemo } from "../lib.js";
import { getJson } from "../api.js";
import { clean, cleanLines, formatBytes } from "../format.js";
import { link } from "../state.js";
import { Failure, Loading, useLoad } from "./load.js";
import { codeIn } from "./template_code.js";
import { Text } from "./text.js";

const kTitles = { template: "Chat template", system: "System prompt", parameters: "Parameters", licence: "Licence" };
const kNoHits = { starts: [], ends: [], isCut: false };
// A template with more is shown without marks.
const kMostMarked = 200_000;

// The parts of the server, divided further at code: [{text, id, isCode}].
function piecesOf(parts) {
  const text = parts.map(([piece]) => piece).join("");
  if (text.length > kMostMarked) return null;
  const code = codeIn(text);
  const pieces = [];
  let place = 0;
  let at = 0;
  for (const [part, id] of parts) {
    const end = place + part.length;
    while (place < end) {
      while (at < code.length && code[at].end <= place) at += 1;
      const next = code[at] ?? { start: end, end };
      const isCode = next.start <= place && at < code.length;
      const to = id === null ? Math.min(end, isCode ? next.end : next.start) : end;
      pieces.push({ text: text.slice(place, to), id, isCode });
      place = to;
    }
  }
  return pieces;
}

function Piece({ piece }) {
  if (piece.id === null) return html`<span class=${piece.isCode ? "code" : undefined}>${cleanLines(piece.text)}</span>`;
  return html`<a class="token" href=${link({ view: "metadata", part: "tokens", q: `id ${piece.id}` })} title=${`token ${piece.id}`}
    >${cleanLines(piece.text)}</a
  >`;
}

function Template({ text, label }) {
  const pieces = useMemo(() => piecesOf(text.parts), [text]);
  if (pieces === null) {
    return html`<${Text} label=${label} text=${text.parts.map(([piece]) => piece).join("")} hits=${kNoHits} hit=${0} />`;
  }
  return html`<pre class="template" tabindex="0" role="region" aria-label=${label}>${pieces.map(
    (piece, place) => html`<${Piece} key=${place} piece=${piece} />`,
  )}</pre>`;
}

function ModelText({ text }) {
  const title = kTitles[text.kind];
  if (text.error) {
    return html`<section class="panel">
      <h2>${title}</h2>
      <p class="notice warning">${clean(text.error)}</p>
    </section>`;
  }
  const isNamed = text.kind === "template" && text.name !== "default";
  const label = isNamed ? `${title} ${clean(text.name)}` : title;
  const about = [clean(text.stated_in), formatBytes(text.bytes), text.is_cut ? "the beginning" : ""]
    .filter(Boolean)
    .join(" · ");
  return html`<section class="panel">
    <div class="toolbar">
      <h2>${label}</h2>
      <span class="muted">${about}</span>
    </div>
    ${
      text.kind === "template"
        ? html`<${Template} text=${text} label=${label} />`
        : html`<${Text} label=${label} text=${text.parts.map(([piece]) => piece).join("")} hits=${kNoHits} hit=${0} />`
    }
  </section>`;
}

export function Texts({ model }) {
  const { value, error, retry } = useLoad(
    (signal) => getJson("template", { model: model.path, v: model.v }, signal),
    [model.path, model.v],
  );
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (!value) return html`<${Loading} />`;
  const { texts } = value;
  return html`<section class="metadata" aria-label="Chat template and texts">
    ${!texts.some((text) => text.kind === "template") && html`<p class="muted">This model has no chat template.</p>`}
    ${texts.map((text, place) => html`<${ModelText} key=${place} text=${text} />`)}
  </section>`;
}
