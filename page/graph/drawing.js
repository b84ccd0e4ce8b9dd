// The drawing of a group as SVG: boxes that are buttons, and edges. One box is reached by Tab, the others by arrows.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { formatCount, shorten } from "../format.js";
import { kindOf } from "./kinds.js";
import { usePan } from "./pan.js";

const kTitleSize = 29; // characters in a box
const kLineSize = 34;

export function countText(element) {
  return element.count > 1 ? `× ${formatCount(element.count)}` : "";
}

// What is below the title of a box, line by line.
export function linesOf(element) {
  if (element.kind !== "group") return element.lines;
  const operators = `${formatCount(element.operators)} ${element.operators === 1 ? "operator" : "operators"}`;
  return [element.count > 1 ? `${operators} each${element.inSeries ? ", in series" : ""}` : operators];
}

const kKindNames = { group: "group", operator: "operator", input: "input", output: "output", outside: "outside this group" };

// The name of a box for a screen reader, and its tooltip: names in full, as far as the worker sends them, and what it is.
function nameOf(element) {
  const parts = [`${element.title} ${countText(element)}`, element.name, ...linesOf(element), kKindNames[element.kind]];
  return [...new Set(parts.map((part) => shorten(part.trim(), 1000)))].filter(Boolean).join(", ");
}

// A path through points, whose pieces begin and end vertically.
function pathOf({ points, isFar }) {
  const [[x, y], ...others] = points;
  if (isFar) {
    const [toX, toY] = others.at(-1);
    const aside = Math.max(60, Math.min(240, Math.abs(toY - y) / 4));
    return `M${x} ${y}C${x + aside} ${y} ${toX + aside} ${toY} ${toX} ${toY}`;
  }
  let path = `M${x} ${y}`;
  let [lastX, lastY] = [x, y];
  for (const [nextX, nextY] of others) {
    const middle = (lastY + nextY) / 2;
    path += `C${lastX} ${middle} ${nextX} ${middle} ${nextX} ${nextY}`;
    [lastX, lastY] = [nextX, nextY];
  }
  return path;
}

function Box({ element, isCurrent, isChosen, onActivate, onFocus }) {
  const { x, y, width, height, kind } = element;
  const title = `${shorten(element.title, kTitleSize)} ${countText(element)}`.trim();
  return html`<g
    class=${`box box-${kind} ${isChosen ? "chosen" : ""}`}
    role="button"
    tabindex=${isCurrent ? 0 : -1}
    aria-pressed=${kind === "group" || kind === "outside" ? undefined : String(isChosen)}
    data-key=${element.key}
    transform=${`translate(${x - width / 2} ${y - height / 2})`}
    onClick=${() => onActivate(element)}
    onFocus=${() => onFocus(element)}
  >
    <title>${nameOf(element)}</title>
    ${element.count > 1 && html`<rect class="behind" x="5" y="5" width=${width} height=${height} rx="4" />`}
    <rect class="body" width=${width} height=${height} rx=${kind === "input" || kind === "output" ? height / 2 : 4} />
    ${kind === "operator" && html`<rect class=${`stripe kind-${kindOf(element.title)}`} width="5" height=${height} rx="2" />`}
    <svg width=${width} height=${height}>
      <text class="title" x=${width / 2} y="19">${title}</text>
      ${linesOf(element).map(
        (line, place) =>
          html`<text key=${place} class="line" x=${width / 2} y=${35 + 16 * place}>${shorten(line, kLineSize)}</text>`,
      )}
    </svg>
    ${element.ports.map(
      (port, place) =>
        html`<circle key=${place} class="port" cx=${12 + 10 * place} cy="0" r="3.5"><title>${shorten(port, 200)}</title></circle>`,
    )}
  </g>`;
}

const kMoves = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

// The element that a key moves to, in reading order.
function afterKey(elements, index, key) {
  if (key === "Home") return elements[0];
  if (key === "End") return elements.at(-1);
  const move = kMoves[key];
  return move === undefined ? undefined : elements[Math.min(elements.length - 1, Math.max(0, index + move))];
}

// `layout` is that of the worker; `chosen` the node of the side panel; `handle` a ref that gets the Pan for keys and buttons.
export function Drawing({ layout, chosen, handle, label, onActivate }) {
  const svg = useRef(null);
  const stage = useRef(null);
  const hadFocus = useRef(false);
  const elements = useMemo(() => [...layout.elements].sort((one, other) => one.y - other.y || one.x - other.x), [layout]);
  const drawing = useMemo(
    () => ({ ...layout, start: elements.find(({ kind }) => kind !== "outside") ?? elements[0] }),
    [layout],
  );
  const pan = usePan(svg, stage, drawing);
  const [current, setCurrent] = useState(null); // the key of the box that Tab reaches
  const chosenElement = elements.find(({ node, kind }) => node !== undefined && node === chosen && kind !== "outside");
  const currentKey = elements.some((element) => element.key === current) ? current : (chosenElement ?? elements[0])?.key;
  useLayoutEffect(() => {
    handle.current = { pan: pan.current, fit: () => pan.current.fit(drawing, true) };
  }, [drawing]);

  const boxOf = (key) => [...svg.current.querySelectorAll(".box")].find((box) => box.dataset.key === key);
  // The focus stays in the drawing when another group is opened from it: the box that had it is gone.
  useLayoutEffect(() => {
    if (hadFocus.current && document.activeElement === document.body) boxOf(currentKey)?.focus({ preventScroll: true });
  }, [layout]);
  useEffect(() => {
    if (chosenElement) pan.current.reveal(chosenElement);
  }, [layout, chosen]);

  const move = (event) => {
    if (event.key === "Enter" || event.key === " ") {
      const element = elements.find((each) => each.key === event.target.dataset?.key);
      if (!element) return;
      event.preventDefault();
      onActivate(element);
      return;
    }
    const index = elements.findIndex((element) => element.key === event.target.dataset?.key);
    const next = index < 0 || event.shiftKey ? undefined : afterKey(elements, index, event.key);
    if (!next) return;
    event.preventDefault();
    pan.current.reveal(next);
    boxOf(next.key)?.focus({ preventScroll: true });
  };
  const focused = (element) => {
    hadFocus.current = true;
    setCurrent(element.key);
  };
  const activate = (element) => {
    if (!pan.current.hasDragged) onActivate(element);
  };
  return html`<svg
    ref=${svg}
    class="drawing"
    role="group"
    aria-label=${label}
    onKeyDown=${move}
    onPointerDown=${(event) => pan.current.down(event)}
    onPointerMove=${(event) => pan.current.drag(event)}
    onPointerUp=${(event) => pan.current.up(event)}
    onPointerCancel=${(event) => pan.current.up(event)}
  >
    <defs>
      <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
        <path class="arrow" d="M0 0L8 4L0 8z" />
      </marker>
    </defs>
    <g ref=${stage}>
      <g aria-hidden="true">
        ${layout.edges.map(
          (edge, index) =>
            html`<path key=${index} class=${edge.isFar ? "edge far" : "edge"} d=${pathOf(edge)} marker-end="url(#arrow)" />`,
        )}
        ${layout.edges.map(
          ({ text, points: [[x, y]] }, index) =>
            text && html`<text key=${`t${index}`} class="edge-text" x=${x + 6} y=${y + 15}>${shorten(text, 24)}</text>`,
        )}
      </g>
      ${elements.map(
        (element) =>
          html`<${Box}
            key=${element.key}
            element=${element}
            isCurrent=${element.key === currentKey}
            isChosen=${element === chosenElement}
            onActivate=${activate}
            onFocus=${() => focused(element)}
          />`,
      )}
    </g>
  </svg>`;
}
