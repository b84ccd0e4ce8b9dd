// The state of a heat map that changes too often for components: its view, its planes, what it asks the server for, and its cursor.

import { kMostUnasked } from "./amounts.js";
import { draw, hasRoomForNumbers } from "./heatmap_canvas.js";
import { cellAt, countNotFinite, paint } from "./plane.js";
import { PlaneLoader } from "./plane_loader.js";
import { kMostValues, ValuesLoader } from "./values.js";
import { areaOf, contains, covering, heightOf, isSameWindow, middleOf, moved, wholeOf, widthOf, zoomed } from "./window.js";

const kMostCells = 512;

export class HeatmapController {
  #canvas = null;
  #size = null;
  #subject = null;
  #view = null;
  #layers = [];
  #limits = null;
  #scale = null;
  #values = null;
  #point = null;
  #cursor = null;
  #rectangle = null;
  #frame = null;
  #mostBytes = kMostUnasked;
  #status = { grid: null, notFinite: 0, plane: null, isBusy: true, error: null, partBytes: null };

  // `onChange` is called with {grid, plane, notFinite, isBusy, error, partBytes, scale, cell, values, window, view}: `view` is the window with fractions.
  constructor(onChange) {
    this.onChange = onChange;
    this.loader = new PlaneLoader({
      onPlane: (plane, request, isLast) => this.#addPlane(plane, request, isLast),
      onBusy: (isBusy) => this.#report({ isBusy }),
      onError: (error) => this.#report({ error }),
      onPart: (partBytes) => this.#report({ partBytes }),
    });
    this.visible = new ValuesLoader((values) => {
      this.#values = values;
      this.#report({});
    });
    this.single = new ValuesLoader((point) => {
      this.#point = point;
      this.#report({});
    });
  }

  close() {
    cancelAnimationFrame(this.#frame);
    for (const loader of [this.loader, this.visible, this.single]) loader.close();
  }

  // What is shown: {place: a text for tensor and axes, parameters, metric, limits [low, high] or null, palette or null, matrix, window or
  // null, bytesPerElement, colours {background, font}}. A new metric or palette keeps the old picture until the new one is there.
  show(subject) {
    const last = this.#subject;
    this.#subject = subject;
    const isElsewhere = last?.place !== subject.place;
    if (isElsewhere) {
      this.#layers = [];
      this.#cursor = null;
      this.#mostBytes = kMostUnasked;
      this.#view = subject.window ?? wholeOf(subject.matrix);
    }
    const isOtherScale = last?.metric !== subject.metric || String(last?.limits) !== String(subject.limits);
    if (isElsewhere || isOtherScale) this.#limits = subject.limits;
    const isOther = isElsewhere || isOtherScale || JSON.stringify(last.parameters) !== JSON.stringify(subject.parameters);
    if (isOther) this.#ask();
    this.#updateScale();
    this.#redraw();
  }

  attach(canvas) {
    this.#canvas = canvas;
  }

  // The size of the canvas in pixels of CSS, and how many device pixels each has.
  resize(size) {
    const isFirst = this.#size === null;
    this.#size = size;
    if (isFirst) this.#ask();
    this.#redraw();
  }

  get window() {
    return covering(this.#view, this.#subject.matrix);
  }

  setWindow(window) {
    if (!isSameWindow(window, this.window)) this.#setView(window);
  }

  reset() {
    this.#setView(wholeOf(this.#subject.matrix));
  }

  // Zooms around a place [x, y] in shares of the canvas, or the cursor, or the middle. Returns whether the view changed.
  zoom(factor, place = null) {
    const around = place ? this.#elementAt(place) : (this.#cursor ?? middleOf(this.#view));
    return this.#setView(zoomed(this.#view, this.#subject.matrix, factor, around));
  }

  // Moves the view by shares [x, y] of the canvas.
  move([x, y]) {
    this.#setView(moved(this.#view, this.#subject.matrix, y * heightOf(this.#view), x * widthOf(this.#view)));
  }

  hover(place) {
    this.#setCursor(place && this.#elementAt(place));
  }

  // Moves the cursor by cells, and the view with it.
  step(rows, columns) {
    const cell = this.#cell();
    if (!cell) {
      this.#setCursor(middleOf(this.#view));
      return;
    }
    const next = (range, by) => (by > 0 ? range[1] + 0.5 : by < 0 ? range[0] - 0.5 : range[0] + 0.5);
    const [height, width] = this.#subject.matrix;
    const row = Math.min(height - 0.5, Math.max(0.5, next(cell.rows, rows)));
    const column = Math.min(width - 0.5, Math.max(0.5, next(cell.columns, columns)));
    const beyond = (at, from, to) => Math.min(0, Math.floor(at) - from) + Math.max(0, Math.ceil(at) - to);
    const [top, bottom, left, right] = this.#view;
    this.#setView(moved(this.#view, this.#subject.matrix, beyond(row, top, bottom), beyond(column, left, right)));
    this.#setCursor([row, column]);
  }

  // Draws a rectangle between two places; when it is done, shows what is in it.
  rectangle(from, to, isDone) {
    const [a, b] = [this.#elementAt(from), this.#elementAt(to)];
    const window = [Math.min(a[0], b[0]), Math.max(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[1], b[1])];
    this.#rectangle = isDone ? null : window;
    if (isDone) this.#setView(covering(window, this.#subject.matrix));
    this.#redraw();
  }

  cancel() {
    this.#rectangle = null;
    this.#redraw();
  }

  // Takes the limits of the scale from the present window.
  rescale() {
    this.#limits = this.#subject.limits;
    this.#ask();
  }

  // Reads all of the window, however large it is.
  readAll() {
    this.#mostBytes = Infinity;
    this.rescale();
  }

  #elementAt([x, y]) {
    const [rows, columns] = this.#subject.matrix;
    const row = this.#view[0] + y * heightOf(this.#view);
    const column = this.#view[2] + x * widthOf(this.#view);
    return [Math.min(rows - 1e-6, Math.max(0, row)), Math.min(columns - 1e-6, Math.max(0, column))];
  }

  #setView(view) {
    if (isSameWindow(view, this.#view)) return false;
    this.#view = view;
    this.#ask();
    this.#redraw();
    this.#report({});
    return true;
  }

  #setCursor(cursor) {
    const last = this.#cell();
    this.#cursor = cursor;
    const cell = this.#cell();
    if (String([last?.rows, last?.columns]) === String([cell?.rows, cell?.columns])) return;
    const isElement = cell && areaOf([...cell.rows, ...cell.columns]) === 1;
    const window = isElement ? [...cell.rows, ...cell.columns] : null;
    if (!this.#point || !window || !isSameWindow(this.#point.window, window)) {
      this.#point = null;
      this.single.close();
      if (isElement && !cell.isExact) this.single.ask(this.#subject.parameters, window);
    }
    this.#report({});
  }

  #ask() {
    if (!this.#size || !this.#subject) return;
    const { parameters, bytesPerElement } = this.#subject;
    const cells = [this.#size.height, this.#size.width].map((side) => Math.min(kMostCells, Math.ceil(side * this.#size.ratio)));
    const scale = this.#limits && { low: this.#limits[0], high: this.#limits[1] };
    const window = this.window;
    this.loader.ask({ parameters, window, cells, scale, bytesPerElement, mostBytes: this.#mostBytes });
    this.visible.close();
    const isSmall = heightOf(window) <= kMostValues && widthOf(window) <= kMostValues;
    if (isSmall && hasRoomForNumbers(this.#view, this.#size)) this.visible.ask(parameters, window);
  }

  // Keeps the present plane and one that shows more than it, for what is around it.
  #addPlane(plane, request, isLast) {
    const layer = {
      ...plane,
      kind: JSON.stringify(request.parameters),
      image: document.createElement("canvas"),
      scale: null,
    };
    const wider = this.#layers.find((old) => old.kind === layer.kind && areaOf(old.grid.window) > areaOf(plane.grid.window));
    if (this.#layers.at(-1)?.kind !== layer.kind) this.#values = this.#point = null;
    this.#layers = wider ? [wider, layer] : [layer];
    // The limits of the first picture hold while a person zooms, so that colours can be compared; not those of a first sample.
    if (isLast && !this.#limits) this.#limits = [plane.grid.low, plane.grid.high];
    this.#updateScale();
    this.#report({ plane, grid: plane.grid, notFinite: countNotFinite(plane), error: null });
  }

  #updateScale() {
    const grid = this.#layers.at(-1)?.grid;
    if (!grid) return;
    const [low, high] = this.#limits ?? [grid.low, grid.high];
    const palette = this.#subject.palette ?? (grid.signed ? "blue-orange" : "cividis");
    const last = this.#scale;
    if (last?.low !== low || last.high !== high || last.palette !== palette) this.#scale = { low, high, palette };
  }

  // The cell below the cursor, with its exact number where that is known.
  #cell() {
    const layer = this.#layers.at(-1);
    const cell = this.#cursor && layer && cellAt(layer, ...this.#cursor);
    if (!cell) return null;
    const at = [...cell.rows, ...cell.columns];
    const known = [this.#values, this.#point].find((values) => values && areaOf(at) === 1 && contains(values.window, at));
    if (!known) return cell;
    return { ...cell, value: known.rows[at[0] - known.window[0]][at[2] - known.window[2]], cut: null, isExact: true };
  }

  #report(change) {
    this.#status = { ...this.#status, ...change };
    this.#redraw();
    this.onChange({
      ...this.#status,
      scale: this.#scale,
      cell: this.#cell(),
      values: this.#values,
      window: this.window,
      view: this.#view,
    });
  }

  #redraw() {
    if (this.#frame !== null) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = null;
      if (!this.#canvas || !this.#size || !this.#scale) return;
      for (const layer of this.#layers) {
        if (layer.scale !== this.#scale) paint(layer, this.#scale, layer.image);
        layer.scale = this.#scale;
      }
      const picture = {
        layers: this.#layers,
        view: this.#view,
        size: this.#size,
        scale: this.#scale,
        values: this.#values,
      };
      draw(this.#canvas, { ...picture, cell: this.#cell(), rectangle: this.#rectangle, ...this.#subject.colours });
    });
  }
}
