// The numbers beside a picture of a matrix: marks at round indices along an axis, and the name of the axis.

import { html } from "../lib.js";
import { formatCount } from "../format.js";

const kMark = 4;
const kDigit = 7;
const kTitle = 16;
const kLine = 14;

// Pixels between two numbers, at least: below each other, and side by side.
const kApart = { down: 24, right: 56 };

// Steps between marks: 1, 2 or 5 times a power of ten.
function stepOf(span, marks) {
  const least = Math.max(1, span / Math.max(1, marks));
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

// The marks of the elements [from, to) on `pixels`: [{index, at}…], each in the middle of its element.
export function marksOf(from, to, pixels, apart) {
  const step = stepOf(to - from, pixels / apart);
  const marks = [];
  for (let index = Math.ceil(from / step) * step; index < to; index += step) {
    const at = ((index + 0.5 - from) / (to - from)) * pixels;
    if (at >= 0 && at <= pixels) marks.push({ index, at });
  }
  return marks;
}

// The width of a ruler that is left of a matrix with so many rows.
export const widthOfRuler = (rows) => kTitle + kMark + 4 + kDigit * formatCount(rows).length;

const kBottom = kMark + kLine + kTitle;

// Beside a picture of `height` pixels; `view` is the window that is shown, which may begin within an element.
export function RulerLeft({ view, rows, height, title }) {
  const width = widthOfRuler(rows);
  return html`<svg class="ruler" width=${width} height=${height} aria-hidden="true">
    ${marksOf(view[0], view[1], height, kApart.down).map(
      ({ index, at }) => html`<g key=${index}>
        <line x1=${width - kMark} x2=${width} y1=${at} y2=${at} />
        <text x=${width - kMark - 3} y=${Math.min(height - 2, Math.max(10, at + 4))} text-anchor="end">${formatCount(index)}</text>
      </g>`,
    )}
    <text class="ruler-title" transform=${`translate(11 ${height / 2}) rotate(-90)`} text-anchor="middle">
      ${height >= 60 ? title : ""}
    </text>
  </svg>`;
}

// Below a picture of `width` pixels. Numbers at the ends stay inside.
export function RulerBottom({ view, width, title }) {
  const anchorOf = (at) => (at < 16 ? "start" : at > width - 16 ? "end" : "middle");
  return html`<svg class="ruler" width=${width} height=${kBottom} aria-hidden="true">
    ${marksOf(view[2], view[3], width, kApart.right).map(
      ({ index, at }) => html`<g key=${index}>
        <line x1=${at} x2=${at} y1="0" y2=${kMark} />
        <text x=${at} y=${kMark + 12} text-anchor=${anchorOf(at)}>${formatCount(index)}</text>
      </g>`,
    )}
    <text class="ruler-title" x=${width / 2} y=${kBottom - 4} text-anchor="middle">${title}</text>
  </svg>`;
}
