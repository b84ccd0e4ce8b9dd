// The controls of a heat map: metric, palette, limits of the scale, zoom and window.

import { html } from "../lib.js";
import { formatWindow, parseWindow } from "./window.js";

// What a cell shows of its elements, with the words for it.
export const kMetrics = { largest: "largest absolute", rms: "RMS", mean: "mean" };

const kPaletteNames = { "": "automatic", cividis: "cividis", "blue-orange": "blue–orange", grey: "grey" };

const digits = (number) => String(Number(number.toPrecision(4)));

function ScaleLimits({ scale, limits, onChange, onAutomatic }) {
  const choose = (side) => (event) => {
    const number = Number(event.target.value);
    const chosen = { low: scale.low, high: scale.high, [side]: number };
    if (event.target.value.trim() === "" || !Number.isFinite(number) || !(chosen.low < chosen.high)) {
      event.target.value = digits(scale[side]);
      return;
    }
    onChange({ low: String(chosen.low), high: String(chosen.high) });
  };
  const field = (side, label) =>
    html`<label>
      ${label}
      <input
        class="limit"
        inputmode="decimal"
        disabled=${!scale}
        value=${scale ? digits(scale[side]) : ""}
        onChange=${choose(side)}
      />
    </label>`;
  const title = "Limits at the 99.9 % quantile of the absolutes in this window";
  return html`${field("low", "From")} ${field("high", "to")}
    <button type="button" title=${title} aria-pressed=${limits ? "false" : "true"} onClick=${onAutomatic}>
      Automatic
    </button>`;
}

function ZoomButtons({ controller, window, matrix }) {
  const choose = (event) => {
    const chosen = parseWindow(event.target.value, matrix);
    if (chosen) controller.setWindow(chosen);
    else event.target.value = formatWindow(window);
  };
  return html`<span class="group">
      <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick=${() => controller.zoom(0.5)}>+</button>
      <button type="button" aria-label="Zoom out" title="Zoom out (-)" onClick=${() => controller.zoom(2)}>−</button>
      <button type="button" title="Show the whole tensor (0)" onClick=${() => controller.reset()}>Whole</button>
    </span>
    <label>
      Window
      <input
        class="window"
        title="rows from:to, columns from:to"
        value=${window ? formatWindow(window) : ""}
        onChange=${choose}
      />
    </label>`;
}

// `choice` has metric (undefined for a difference), palette and limits; `onChange` is called with parameters of the URL.
export function HeatmapControls({ controller, status, matrix, choice, onChange }) {
  const automatic = () => {
    onChange({ low: null, high: null });
    controller.rescale();
  };
  return html`<div class="toolbar">
    ${
      choice.metric &&
      html`<label>
        Cells show
        <select
          value=${choice.metric}
          onChange=${(event) => onChange({ metric: event.target.value, low: null, high: null })}
        >
          ${Object.entries(kMetrics).map(([metric, name]) => html`<option value=${metric}>${name}</option>`)}
        </select>
      </label>`
    }
    <label>
      Colours
      <select value=${choice.palette ?? ""} onChange=${(event) => onChange({ palette: event.target.value || null })}>
        ${Object.entries(kPaletteNames).map(([palette, name]) => html`<option value=${palette}>${name}</option>`)}
      </select>
    </label>
    <${ScaleLimits} scale=${status?.scale} limits=${choice.limits} onChange=${onChange} onAutomatic=${automatic} />
    <${ZoomButtons} controller=${controller} window=${status?.window} matrix=${matrix} />
  </div>`;
}
