// The axes of a heat map of a tensor with more than two: which goes down, which to the right, and the index on each of the others.

import { html } from "../lib.js";
import { formatCount } from "../format.js";

// {down, right, at} from the parameters `axes=DOWN,RIGHT` and `at=I,J,…` of the URL, or null: the last axis to the right, all others down.
export function parseAxes({ axes, at }, shape) {
  const [down, right] = String(axes ?? "")
    .split(",")
    .map(Number);
  const isAxis = (axis) => Number.isInteger(axis) && axis >= 0 && axis < shape.length;
  if (!axes || !isAxis(down) || !isAxis(right) || down === right) return null;
  const indices = String(at ?? "")
    .split(",")
    .map(Number);
  const index = (count, axis) => (Number.isInteger(indices[axis]) ? Math.min(count - 1, Math.max(0, indices[axis])) : 0);
  return { down, right, at: shape.map(index) };
}

// The size of the matrix of these axes.
export const matrixOf = (axes, { shape, rows, columns }) => (axes ? [shape[axes.down], shape[axes.right]] : [rows, columns]);

// The parameters of a request.
export const parametersOf = (axes) => (axes ? { down: axes.down, right: axes.right, at: axes.at.join(",") } : {});

// Selects for the two axes, and a field for the index on each of the others. `onChange` is called with parameters of the URL.
export function AxesControls({ axes, shape, onChange }) {
  const last = shape.length - 1;
  const choose = (down, right) => onChange({ axes: `${down},${right}`, at: axes?.at.join(",") ?? null, window: null });
  const other = (axis) => (axis === last ? last - 1 : last);
  const chooseDown = (event) => {
    const down = Number(event.target.value);
    if (event.target.value === "") onChange({ axes: null, at: null, window: null });
    else choose(down, axes && axes.right !== down ? axes.right : other(down));
  };
  const chooseRight = (event) => {
    const right = Number(event.target.value);
    choose(axes.down === right ? axes.right : axes.down, right);
  };
  const chooseIndex = (axis) => (event) => {
    const index = Math.min(shape[axis] - 1, Math.max(0, Math.round(Number(event.target.value) || 0)));
    onChange({ at: axes.at.map((old, i) => (i === axis ? index : old)).join(",") });
  };
  const options = shape.map((count, axis) => html`<option value=${String(axis)}>axis ${axis} (${formatCount(count)})</option>`);
  const fixed = axes ? shape.map((_, axis) => axis).filter((axis) => axis !== axes.down && axis !== axes.right) : [];
  return html`<div class="toolbar">
    <label>
      Down
      <select value=${axes ? String(axes.down) : ""} onChange=${chooseDown}>
        <option value="">all but the last</option>
        ${options}
      </select>
    </label>
    <label>
      Right
      <select value=${String(axes?.right ?? last)} disabled=${!axes} onChange=${chooseRight}>
        ${options}
      </select>
    </label>
    ${fixed.map(
      (axis) =>
        html`<label key=${axis}>
          Index on axis ${axis}
          <input type="number" min="0" max=${shape[axis] - 1} value=${axes.at[axis]} onChange=${chooseIndex(axis)} />
        </label>`,
    )}
  </div>`;
}
