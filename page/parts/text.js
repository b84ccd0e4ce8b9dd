// A text with line numbers, of which only the visible rows exist; the places where a query is found are marked.

import { html, useLayoutEffect, useMemo, useState } from "../lib.js";
import { cleanLines } from "../format.js";
import { endOf, lastAtMost, piecesOf, rowsOf } from "./lines.js";
import { useVirtual } from "./virtual.js";

const kRowHeight = 18;
const kCharacterWidth = 7.3;
const kGutter = 72;
const kNoRows = { starts: [], lines: [] };

function Row({ text, rows, row, hits, hit, top }) {
  const line = rows.lines[row];
  const isFirst = row === 0 || rows.lines[row - 1] !== line;
  return html`<div class="text-row" style=${{ top: `${top}px`, height: `${kRowHeight}px` }}>
    <span class="line" aria-hidden="true">${isFirst ? line : ""}</span>
    <span
      >${piecesOf(text, rows.starts[row], endOf(text, rows, row), hits).map((piece) =>
        piece.hit === null
          ? cleanLines(piece.text)
          : html`<mark class=${piece.hit === hit ? "current" : ""}>${cleanLines(piece.text)}</mark>`,
      )}</span
    >
  </div>`;
}

// `hits` is that of hitsOf(); the hit number `hit` is scrolled into view.
export function Text({ label, text, hits, hit }) {
  // The number of rows depends on the width, which is known only after the first layout.
  const [width, setWidth] = useState(0);
  const characters = Math.floor((width - kGutter) / kCharacterWidth);
  const rows = useMemo(() => (width === 0 ? kNoRows : rowsOf(text, characters)), [text, characters, width === 0]);
  const view = useVirtual({ count: rows.starts.length, rowHeight: kRowHeight });
  useLayoutEffect(() => setWidth(view.width), [view.width]);
  useLayoutEffect(() => {
    if (view.isMeasured && rows.starts.length > 0 && hits.starts.length > 0) {
      view.show(lastAtMost(rows.starts, hits.starts[hit]), { isCentred: true });
    }
  }, [view.isMeasured, hits, hit, rows]);
  const indices = Array.from({ length: Math.max(0, view.last - view.first) }, (_, place) => view.first + place);
  return html`<div ref=${view.box} class="text" tabindex="0" role="region" aria-label=${label} onScroll=${view.onScroll}>
    <div class="text-body" style=${{ height: `${view.spacer}px` }}>
      ${indices.map(
        (row) => html`<${Row}
          key=${row}
          text=${text}
          rows=${rows}
          row=${row}
          hits=${hits}
          hit=${hit}
          top=${view.offsetOf(row)}
        />`,
      )}
    </div>
  </div>`;
}
