// Moving and scaling a drawing: drag, wheel, two fingers, and steps for keys and buttons.

import { useEffect, useLayoutEffect, useRef } from "../lib.js";

const kLeastScale = 0.02;
const kMostScale = 4;
const kReadable = 0.5; // the smallest scale at which a drawing is shown first
const kMargin = 24;
const kClickSize = 4; // a pointer that moves less has clicked
const kStep = 80;

const within = (value, least, most) => Math.min(most, Math.max(least, value));

// The scale and position of a drawing in a window of `width` × `height`: whole, or its width from the top. If that is too small to
// read, the element `start` is in the middle of the first row.
function fitted(drawing, { width, height }, isWhole) {
  const wide = Math.min((width - 2 * kMargin) / Math.max(1, drawing.width), 1);
  const whole = Math.min(wide, (height - 2 * kMargin) / Math.max(1, drawing.height));
  const scale = within(isWhole ? whole : Math.max(wide, kReadable), kLeastScale, kMostScale);
  const isCut = drawing.width * scale > width && !isWhole;
  const isHigh = drawing.height * scale > height - 2 * kMargin;
  const center = isCut ? drawing.start.x : drawing.width / 2;
  const top = isCut && drawing.start.y * scale > height / 2 ? height / 2 - drawing.start.y * scale : kMargin;
  return { scale, x: width / 2 - center * scale, y: isHigh ? top : (height - drawing.height * scale) / 2 };
}

// The distance of two pointers and their middle.
function pinchOf([one, other]) {
  return {
    distance: Math.hypot(one.x - other.x, one.y - other.y),
    x: (one.x + other.x) / 2,
    y: (one.y + other.y) / 2,
  };
}

class Pan {
  view = { scale: 1, x: 0, y: 0 };
  pointers = new Map();
  moved = 0;

  constructor(svg, stage) {
    this.svg = svg;
    this.stage = stage;
  }

  get size() {
    return this.svg.getBoundingClientRect();
  }

  show(view) {
    this.view = view;
    this.stage.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
  }

  fit(drawing, isWhole) {
    this.show(fitted(drawing, this.size, isWhole));
  }

  move(x, y) {
    this.show({ ...this.view, x: this.view.x + x, y: this.view.y + y });
  }

  step(x, y) {
    this.move(-x * kStep, -y * kStep);
  }

  // Scales around a point of the window; its middle by default.
  zoom(factor, x = this.size.width / 2, y = this.size.height / 2) {
    const scale = within(this.view.scale * factor, kLeastScale, kMostScale);
    const change = scale / this.view.scale;
    this.show({ scale, x: x - (x - this.view.x) * change, y: y - (y - this.view.y) * change });
  }

  // Moves the drawing so that an element is in the window.
  reveal(element) {
    const { scale, x, y } = this.view;
    const { width, height } = this.size;
    const halfWidth = (element.width * scale) / 2 + kMargin;
    const halfHeight = (element.height * scale) / 2 + kMargin;
    const left = element.x * scale + x;
    const top = element.y * scale + y;
    this.move(
      within(left, halfWidth, Math.max(halfWidth, width - halfWidth)) - left,
      within(top, halfHeight, Math.max(halfHeight, height - halfHeight)) - top,
    );
  }

  #placeOf(event) {
    const { left, top } = this.size;
    return { x: event.clientX - left, y: event.clientY - top };
  }

  wheel(event) {
    event.preventDefault();
    const { x, y } = this.#placeOf(event);
    const lines = event.deltaMode === 0 ? event.deltaY / 40 : event.deltaY;
    this.zoom(1.1 ** within(-lines, -10, 10), x, y);
  }

  down(event) {
    if (event.button !== 0) return;
    if (this.pointers.size === 0) this.moved = 0;
    this.pointers.set(event.pointerId, this.#placeOf(event));
  }

  drag(event) {
    const last = this.pointers.get(event.pointerId);
    if (!last) return;
    const place = this.#placeOf(event);
    const before = [...this.pointers.values()];
    this.pointers.set(event.pointerId, place);
    this.moved += Math.hypot(place.x - last.x, place.y - last.y);
    if (this.moved < kClickSize) return;
    // The element under the pointer gets the click unless the pointer has moved.
    if (!this.svg.hasPointerCapture(event.pointerId)) this.svg.setPointerCapture(event.pointerId);
    if (this.pointers.size !== 2) {
      this.move(place.x - last.x, place.y - last.y);
      return;
    }
    const from = pinchOf(before);
    const to = pinchOf([...this.pointers.values()]);
    this.move(to.x - from.x, to.y - from.y);
    if (from.distance > 0) this.zoom(to.distance / from.distance, to.x, to.y);
  }

  up(event) {
    this.pointers.delete(event.pointerId);
  }

  get hasDragged() {
    return this.moved >= kClickSize;
  }
}

// A Pan in a ref, for the elements in the refs `svg` and `stage`. A new `drawing` is shown from its beginning.
export function usePan(svg, stage, drawing) {
  const pan = useRef(null);
  useLayoutEffect(() => {
    pan.current = new Pan(svg.current, stage.current);
  }, []);
  useLayoutEffect(() => pan.current.fit(drawing, false), [drawing]);
  useEffect(() => {
    // A listener of Preact is passive for the wheel: it could not keep the page from scrolling.
    const wheel = (event) => pan.current.wheel(event);
    const element = svg.current;
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);
  useEffect(() => {
    // The middle stays in the middle when the window or the side panel takes or leaves room.
    let last = pan.current.size.width;
    const observer = new ResizeObserver(() => {
      const { width } = pan.current.size;
      pan.current.move((width - last) / 2, 0);
      last = width;
    });
    observer.observe(svg.current);
    return () => observer.disconnect();
  }, []);
  return pan;
}
