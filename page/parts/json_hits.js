// Where a search is found in JSON: the members of objects and lists that have it, each with its path from the root. One walk over the
// text, without parsing it as a whole.

import { kindAt, Pauses, skipString, textOf } from "./json_scan.js";

export const kMostFound = 500;
const kMostPath = 24;
const kSkipped = new Set([":", " ", "\n", "\t", "\r"]);

// The objects and lists around a place of the text, and the places where the search is found, as far as they are not taken.
class Walk {
  constructor(starts) {
    Object.assign(this, { starts, hit: 0, found: [], stack: [] });
  }

  isDone() {
    return this.hit >= this.starts.length || this.found.length >= kMostFound;
  }

  // What is found before `before` is in `node`, or in its key.
  take(before, node) {
    const first = this.hit;
    while (this.hit < this.starts.length && this.starts[this.hit] < before) this.hit += 1;
    if (this.hit === first) return;
    const path = this.stack.slice(-kMostPath).map(({ isObject, key, index }) => (isObject ? key : index));
    this.found.push({ path, node, first, count: this.hit - first });
  }

  // Reads what begins at `place`; returns the place after it.
  step(text, place) {
    const character = text[place];
    const top = this.stack.at(-1);
    if (character === "{" || character === "[") {
      this.take(place, { kind: kindAt(text, place), start: place });
      const isObject = character === "{";
      this.stack.push({ isObject, wantsKey: isObject, key: "", index: 0 });
    } else if (character === "}" || character === "]") {
      this.stack.pop();
    } else if (character === "," && top) {
      top.wantsKey = top.isObject;
      top.index += 1;
    } else if (!kSkipped.has(character)) {
      let end = place + 1;
      if (character === '"') end = skipString(text, place);
      else while (end < text.length && !",]} \n\t\r".includes(text[end])) end += 1;
      if (character === '"' && top?.wantsKey) Object.assign(top, { key: textOf(text, { start: place, end }), wantsKey: false });
      else this.take(end, { kind: kindAt(text, place), start: place, end });
      return end;
    }
    return place + 1;
  }
}

// At most kMostFound of {path: [the last keys and indices], node: {kind, start, end}, first, count}, in the order of the text: hits `first` to
// `first + count` are in a scalar or in its key, or in the key of an object or a list. `starts` are the offsets of all hits.
export async function findInJson(text, starts, signal) {
  const pauses = new Pauses(signal);
  const walk = new Walk(starts);
  for (let place = 0; place < text.length && !walk.isDone(); ) {
    if (pauses.isDue()) await pauses.rest();
    place = walk.step(text, place);
  }
  return walk.found;
}
