// The heat map of a tensor, or of the difference of two: a canvas with controls, a colour bar and a text alternative.

import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { shorten } from "../format.js";
import { useKeys } from "../keys.js";
import { go } from "../state.js";
import { useTheme } from "../theme.js";
import { AxesControls, matrixOf, parametersOf, parseAxes } from "./axes.js";
import { watchGestures } from "./gestures.js";
import { HeatmapController } from "./heatmap_controller.js";
import { HeatmapControls, kMetrics } from "./heatmap_controls.js";
import { ColourBar, HeatmapTable, Notes, Readout, summaryOf } from "./heatmap_text.js";
import { Failure } from "./load.js";
import { kPalettes } from "./palette.js";
import { RulerBottom, RulerLeft, widthOfRuler } from "./rulers.js";
import { useWidth } from "./size.js";
import { isSameWindow, parseWindow, wholeOf } from "./window.js";

// The window is written into the URL when it has not changed for this many milliseconds.
const kSettled = 250;

// The share of the view that an arrow key moves.
const kStep = 1 / 8;

const kArrows = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

// The legend is beside a picture if the frame is at least so wide.
const kWide = 560;
const kLegend = 92;

// An element is at most 64 pixels large, and the canvas is not higher than most screens. The numbers of the axes, and in a wide frame
// the legend, are beside it.
function sizeOf([rows, columns], available) {
  const besides = widthOfRuler(rows) + (available >= kWide ? kLegend : 0);
  const width = Math.min(available - besides, Math.max(160, columns * 64));
  const highest = Math.min(560, Math.max(240, Math.round(innerHeight * 0.7)));
  const height = Math.min(highest, Math.max(48, Math.min(rows * 64, Math.round((width * rows) / columns))));
  return { width, height, ratio: devicePixelRatio };
}

function limitsOf({ low, high }) {
  const limits = [low, high].map((text) => (text ? Number(text) : NaN));
  return limits.every(Number.isFinite) && limits[0] < limits[1] ? limits : null;
}

// What the URL chooses, with defaults for what it does not name.
function choiceOf(location, source) {
  const metric = location.metric in kMetrics ? location.metric : "largest";
  return {
    metric: source.isDifference ? undefined : metric,
    palette: kPalettes.includes(location.palette) ? location.palette : null,
    limits: limitsOf(location),
    axes: source.shape.length > 2 ? parseAxes(location, source.shape) : null,
  };
}

function coloursOf(element) {
  const style = getComputedStyle(element);
  return { background: style.getPropertyValue("--surface-strong"), font: style.getPropertyValue("--code") };
}

// A controller, and its latest status.
function useController() {
  const [status, setStatus] = useState(null);
  const controller = useMemo(() => new HeatmapController(setStatus), []);
  useEffect(() => () => controller.close(), []);
  return [controller, status];
}

// Keeps the window of the URL and that of the controller equal.
function useWindowInUrl(controller, window, location, matrix) {
  const written = useRef(location.window);
  useEffect(() => {
    if (location.window === written.current) return;
    written.current = location.window;
    controller.setWindow(parseWindow(location.window, matrix) ?? wholeOf(matrix));
  }, [location.window]);
  useEffect(() => {
    if (!window) return undefined;
    const timer = setTimeout(() => {
      const text = isSameWindow(window, wholeOf(matrix)) ? undefined : window.join(",");
      if (text === written.current) return;
      written.current = text;
      go({ window: text ?? null }, { replace: true });
    }, kSettled);
    return () => clearTimeout(timer);
  }, [String(window)]);
}

function Picture({ controller, size, label, isZoomed }) {
  const canvas = useRef(null);
  useLayoutEffect(() => {
    controller.attach(canvas.current);
    return watchGestures(canvas.current, {
      zoom: (factor, place) => controller.zoom(factor, place),
      move: (shares) => controller.move(shares),
      rectangle: (from, to, isDone) => controller.rectangle(from, to, isDone),
      hover: (place) => controller.hover(place),
      cancel: () => controller.cancel(),
    });
  }, []);
  useLayoutEffect(() => controller.resize(size), [size.width, size.height, size.ratio]);
  const press = (event) => {
    const arrow = kArrows[event.key];
    if (!arrow || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (event.shiftKey) controller.step(arrow[1], arrow[0]);
    else controller.move([arrow[0] * kStep, arrow[1] * kStep]);
  };
  return html`<canvas
    ref=${canvas}
    class=${isZoomed ? "heatmap zoomed" : "heatmap"}
    tabindex="0"
    role="application"
    aria-roledescription="heat map"
    aria-label=${label}
    width=${Math.round(size.width * size.ratio)}
    height=${Math.round(size.height * size.ratio)}
    style=${{ width: `${size.width}px`, height: `${size.height}px` }}
    onKeyDown=${press}
  ></canvas>`;
}

// The picture with the numbers of its axes, and the legend beside or below it.
function Framed({ controller, status, matrix, available, label, isZoomed }) {
  const size = sizeOf(matrix, available);
  const isWide = available >= kWide;
  const view = status?.view ?? wholeOf(matrix);
  const bar = status?.scale && html`<${ColourBar} scale=${status.scale} height=${isWide ? size.height : null} />`;
  return html`<div class="heatmap-axes">
      <${RulerLeft} view=${view} rows=${matrix[0]} height=${size.height} title=${status?.grid?.down ?? ""} />
      <${Picture} controller=${controller} size=${size} label=${label} isZoomed=${isZoomed} />
      ${isWide ? (bar ?? html`<span></span>`) : html`<span></span>`}
      <span></span>
      <${RulerBottom} view=${view} width=${size.width} title=${status?.grid?.right ?? ""} />
    </div>
    ${!isWide && bar}`;
}

// `source` is what is shown: {parameters of requests, name, shape, rows, columns, bytes, parameterCount, isDifference}.
export function Heatmap({ source, location, title = "Heat map" }) {
  const theme = useTheme();
  const [frame, available] = useWidth();
  const [controller, status] = useController();
  const choice = choiceOf(location, source);
  const matrix = matrixOf(choice.axes, source);
  const parameters = { ...source.parameters, metric: choice.metric, ...parametersOf(choice.axes) };
  const place = JSON.stringify([source.parameters, choice.axes?.down, choice.axes?.right]);
  const subject = {
    place,
    parameters,
    metric: choice.metric,
    limits: choice.limits,
    palette: choice.palette,
    matrix,
    window: parseWindow(location.window, matrix),
    bytesPerElement: source.bytes / source.parameterCount,
  };
  useLayoutEffect(() => {
    controller.show({ ...subject, colours: coloursOf(frame.current) });
  }, [JSON.stringify([place, parameters, choice.limits, choice.palette]), theme]);
  useWindowInUrl(controller, status?.window, location, matrix);
  useKeys({ "+": () => controller.zoom(0.5), "-": () => controller.zoom(2), 0: () => controller.reset() });

  const change = useCallback((changes) => go(changes, { replace: true }), []);
  const what = source.isDifference ? "mean difference" : kMetrics[choice.metric];
  const name = shorten(source.name, 80);
  return html`<section class="panel" aria-label=${title}>
    <h2>${title}</h2>
    <${HeatmapControls}
      controller=${controller}
      status=${status}
      matrix=${matrix}
      choice=${choice}
      onChange=${change}
    />
    ${source.shape.length > 2 && html`<${AxesControls} axes=${choice.axes} shape=${source.shape} onChange=${change} />`}
    <div ref=${frame} class="heatmap-frame">
      ${
        available > 0 &&
        html`<${Framed}
          controller=${controller}
          status=${status}
          matrix=${matrix}
          available=${available}
          label=${summaryOf(status ?? {}, name, what)}
          isZoomed=${status !== null && !isSameWindow(status.window, wholeOf(matrix))}
        />`
      }
    </div>
    ${status?.error && html`<${Failure} error=${status.error} retry=${() => controller.rescale()} />`}
    <${Readout} cell=${status?.cell} what=${what} />
    ${status && html`<${Notes} status=${status} onReadAll=${() => controller.readAll()} />`}
    ${status && html`<${HeatmapTable} status=${status} metric=${choice.metric ?? "mean"} what=${what} />`}
  </section>`;
}
