// The drawing as a table, for people who do not see it.

import { html } from "../lib.js";
import { shorten } from "../format.js";
import { countText, linesOf } from "./drawing.js";

// For each element the titles of those that an edge leads to or from.
function neighboursOf({ elements, edges }, side, other) {
  const lists = elements.map(() => []);
  for (const edge of edges) lists[edge[side]].push(edge[other]);
  return lists;
}

const kMostNames = 8;

function Names({ elements, indices }) {
  const names = indices.slice(0, kMostNames).map((index) => shorten(elements[index].title, 32));
  const more = indices.length > kMostNames ? ` and ${indices.length - kMostNames} more` : "";
  return html`${names.join(", ")}${more}`;
}

export function List({ layout, onActivate }) {
  const from = neighboursOf(layout, "to", "from");
  const to = neighboursOf(layout, "from", "to");
  return html`<details class="graph-list">
    <summary>This group as a table (${layout.elements.length})</summary>
    <div class="scroll" tabindex="0" role="region" aria-label="Elements of the group">
      <table>
        <thead>
          <tr>
            <th scope="col">Element</th>
            <th scope="col">Name or contents</th>
            <th scope="col">From</th>
            <th scope="col">To</th>
          </tr>
        </thead>
        <tbody>
          ${layout.elements.map(
            (element, index) =>
              html`<tr key=${element.key}>
                <td>
                  <button type="button" class="node-link" onClick=${() => onActivate(element)}>
                    ${shorten(element.title, 40)} ${countText(element)}
                  </button>
                </td>
                <td class="name">${shorten(linesOf(element).join(", "), 80)}</td>
                <td><${Names} elements=${layout.elements} indices=${from[index]} /></td>
                <td><${Names} elements=${layout.elements} indices=${to[index]} /></td>
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </details>`;
}
