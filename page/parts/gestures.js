// Gestures on a picture: wheel and pinch zoom, drag moves, drag with Shift draws a rectangle. Places are shares [x, y] of the element.

// Zoom for one notch of a wheel (about 100 pixels).
const kNotch = 1.25;

// A pointer that moved less than this many pixels has clicked.
const kClick = 4;

const sharesOf = (element, { clientX, clientY }) => {
  const box = element.getBoundingClientRect();
  return [(clientX - box.left) / box.width, (clientY - box.top) / box.height];
};

function wheelFactor(event) {
  const pixels = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? event.deltaY * 33 : event.deltaY;
  return kNotch ** (Math.max(-300, Math.min(300, pixels)) / 100);
}

// The middle of two places, and their distance in pixels.
function spreadOf(element, [a, b]) {
  const box = element.getBoundingClientRect();
  return {
    middle: [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2],
    distance: Math.max(1, Math.hypot((a[0] - b[0]) * box.width, (a[1] - b[1]) * box.height)),
  };
}

class Gestures {
  #pointers = new Map();
  #start = null;
  #isRectangle = false;

  constructor(element, actions) {
    this.element = element;
    this.actions = actions;
  }

  wheel = (event) => {
    const factor = wheelFactor(event);
    // A picture that cannot be made smaller lets the page scroll.
    if (!this.actions.zoom(factor, sharesOf(this.element, event))) return;
    event.preventDefault();
  };

  pointerdown = (event) => {
    if (event.button !== 0) return;
    this.element.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, sharesOf(this.element, event));
    this.#start = this.#pointers.size === 1 ? { at: sharesOf(this.element, event), x: event.clientX, y: event.clientY } : null;
    this.#isRectangle = event.shiftKey && this.#start !== null;
  };

  pointermove = (event) => {
    const at = sharesOf(this.element, event);
    const last = this.#pointers.get(event.pointerId);
    if (!last) {
      this.actions.hover(at);
      return;
    }
    const before = [...this.#pointers.values()];
    this.#pointers.set(event.pointerId, at);
    if (this.#isRectangle) this.actions.rectangle(this.#start.at, at, false);
    else if (this.#pointers.size === 2) this.#pinch(before, [...this.#pointers.values()]);
    else if (this.#isDragged(event)) this.actions.move([last[0] - at[0], last[1] - at[1]]);
  };

  pointerup = (event) => {
    if (!this.#pointers.delete(event.pointerId) || !this.#start) return;
    const at = sharesOf(this.element, event);
    const isDragged = this.#isDragged(event);
    if (this.#isRectangle && isDragged) this.actions.rectangle(this.#start.at, at, true);
    else if (this.#isRectangle) this.actions.cancel();
    else if (!isDragged) this.actions.hover(at);
    this.#isRectangle = false;
    this.#start = null;
  };

  pointercancel = (event) => {
    this.#pointers.delete(event.pointerId);
    this.#start = null;
    this.#isRectangle = false;
    this.actions.cancel();
  };

  pointerleave = () => {
    if (this.#pointers.size === 0) this.actions.hover(null);
  };

  #isDragged({ clientX, clientY }) {
    if (!this.#start) return true;
    if (Math.hypot(clientX - this.#start.x, clientY - this.#start.y) >= kClick) this.#start.isDragged = true;
    return this.#start.isDragged === true;
  }

  #pinch(before, after) {
    const [from, to] = [spreadOf(this.element, before), spreadOf(this.element, after)];
    this.actions.move([from.middle[0] - to.middle[0], from.middle[1] - to.middle[1]]);
    this.actions.zoom(from.distance / to.distance, to.middle);
  }
}

const kEvents = ["wheel", "pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave"];

// Watches the gestures on `element` until the function that it returns is called. `actions`: zoom(factor, place), which returns whether
// it could; move([x, y]); rectangle(from, to, isDone); hover(place or null); cancel(), which drops the rectangle.
export function watchGestures(element, actions) {
  const gestures = new Gestures(element, actions);
  for (const name of kEvents) element.addEventListener(name, gestures[name], { passive: false });
  return () => {
    for (const name of kEvents) element.removeEventListener(name, gestures[name]);
  };
}
