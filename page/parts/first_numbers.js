// The first numbers of a tensor as a table: what a person looks at to see whether they are numbers at all.

import { html } from "../lib.js";
import { getJson } from "../api.js";
import { formatCount, formatNumber } from "../format.js";
import { Failure, Loading, useLoad } from "./load.js";
import { useWidth } from "./size.js";

const kRows = 8;
const kMostColumns = 8;

// The width of the index of a row, and of a number.
const kIndex = 52;
const kColumn = 86;

const kNumbers = { NaN, inf: Infinity, "-inf": -Infinity };

// The rows of the table, each with the index that it begins with: of a single row its numbers, broken into lines.
function linesOf(rows, isSingle, columns) {
  if (!isSingle) return rows.map((numbers, i) => ({ begin: i, numbers }));
  const [all] = rows;
  const lines = [];
  for (let begin = 0; begin < all.length; begin += columns) lines.push({ begin, numbers: all.slice(begin, begin + columns) });
  return lines;
}

function Table({ lines, isSingle }) {
  const columns = lines[0].numbers.map((_, column) => column);
  const corner = isSingle ? "element" : "row";
  return html`<div class="scroll" tabindex="0" role="region" aria-label="The first numbers">
    <table class="numbers">
      <thead>
        <tr>
          <th scope="col">${corner}</th>
          ${columns.map((column) => html`<th key=${column} scope="col" class="number">${isSingle ? `+ ${column}` : column}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${lines.map(
          ({ begin, numbers }) =>
            html`<tr key=${begin}>
              <th scope="row" class="number">${formatCount(begin)}</th>
              ${numbers.map((value) => html`<td class="number">${formatNumber(kNumbers[value] ?? value)}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function Numbers({ tensor, parameters, columns }) {
  const isSingle = tensor.rows === 1;
  const rows = Math.min(kRows, tensor.rows);
  const window = isSingle ? [0, 1, 0, Math.min(tensor.columns, columns * kRows)] : [0, rows, 0, columns];
  const { value, error, retry } = useLoad(
    (signal) => getJson("values", { ...parameters, window: window.join(",") }, signal),
    [window.join(",")],
  );
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (!value) return html`<${Loading} />`;
  return html`<${Table} lines=${linesOf(value.rows, isSingle, columns)} isSingle=${isSingle} />`;
}

// `tensor` is a response of `tensor`, `parameters` those of requests.
export function FirstNumbers({ tensor, parameters }) {
  const [frame, width] = useWidth();
  const columns = Math.min(kMostColumns, tensor.columns, Math.max(1, Math.floor((width - kIndex) / kColumn)));
  return html`<section class="panel first-numbers" aria-label="First numbers">
    <h2>First numbers</h2>
    <div ref=${frame}>${width > 0 && html`<${Numbers} tensor=${tensor} parameters=${parameters} columns=${columns} />`}</div>
  </section>`;
}
