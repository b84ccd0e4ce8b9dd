// Reading JSON without parsing it as a whole: the children of one object or list at a time, each with its place in the text. Numbers
// stay as they are written, so that large integers keep their digits.

const kBatch = 100;
// A scan gives way to the page after this many milliseconds.
const kSlice = 8;
const kStepsBetweenLooks = 4096;

const kBlank = new Set([" ", "\t", "\n", "\r"]);
const kKinds = { "{": "object", "[": "list", '"': "text", t: "boolean", f: "boolean", n: "null" };
const kEnds = new Set([",", "]", "}"]);

// What begins at a place: "object", "list", "text", "boolean", "null" or "number".
export const kindAt = (text, place) => kKinds[text[place]] ?? "number";

// Thrown for text that is not JSON; `at` is the offset.
export class JsonFault extends Error {
  constructor(text, at) {
    super(`not valid JSON at character ${at}${at >= text.length ? ": the text ends early" : ""}`);
    this.at = at;
  }
}

function skipBlank(text, at) {
  let place = at;
  while (kBlank.has(text[place])) place += 1;
  return place;
}

// The end of the string that begins at `at`.
export function skipString(text, at) {
  let place = at + 1;
  for (;;) {
    const quote = text.indexOf('"', place);
    if (quote < 0) throw new JsonFault(text, text.length);
    let slashes = 0;
    while (text[quote - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return quote + 1;
    place = quote + 1;
  }
}

function skipPlain(text, at) {
  let place = at;
  while (place < text.length && !kEnds.has(text[place]) && !kBlank.has(text[place])) place += 1;
  if (place === at) throw new JsonFault(text, at);
  return place;
}

// Lets the page work from time to time, and ends when `signal` aborts.
export class Pauses {
  constructor(signal) {
    this.signal = signal;
    this.steps = 0;
    this.began = performance.now();
  }

  isDue() {
    this.steps += 1;
    return this.steps % kStepsBetweenLooks === 0 && performance.now() - this.began > kSlice;
  }

  async rest() {
    await new Promise((resolve) => setTimeout(resolve));
    this.signal?.throwIfAborted();
    this.began = performance.now();
  }
}

// The end of the object or list that begins at `at`, and the number of its children.
async function skipContainer(text, at, pauses) {
  let place = at + 1;
  let depth = 1;
  let commas = 0;
  let isEmpty = true;
  while (depth > 0) {
    if (place >= text.length) throw new JsonFault(text, place);
    const character = text[place];
    if (character === '"') {
      isEmpty = false;
      place = skipString(text, place);
    } else {
      if (character === "{" || character === "[") depth += 1;
      else if (character === "}" || character === "]") depth -= 1;
      else if (character === "," && depth === 1) commas += 1;
      if (depth > 0 && isEmpty && !kBlank.has(character)) isEmpty = false;
      place += 1;
    }
    if (pauses.isDue()) await pauses.rest();
  }
  return { end: place, count: isEmpty ? 0 : commas + 1 };
}

async function scanValue(text, start, pauses) {
  const kind = kindAt(text, start);
  if (kind === "object" || kind === "list") return { kind, start, ...(await skipContainer(text, start, pauses)) };
  return { kind, start, end: kind === "text" ? skipString(text, start) : skipPlain(text, start) };
}

// The value that the text consists of: {kind, start, end, count}.
export async function scanRoot(text, signal) {
  const root = await scanValue(text, skipBlank(text, 0), new Pauses(signal));
  const rest = skipBlank(text, root.end);
  if (rest < text.length) throw new JsonFault(text, rest);
  return root;
}

function keyAt(text, start) {
  if (text[start] !== '"') throw new JsonFault(text, start);
  const end = skipString(text, start);
  const colon = skipBlank(text, end);
  if (text[colon] !== ":") throw new JsonFault(text, colon);
  return { key: textOf(text, { start, end }), value: skipBlank(text, colon + 1) };
}

// At most `limit` children of `container` from the offset `from` (null: the first). Calls `onBatch(children)` as they are found and
// resolves to the offset of the next one, or null after the last. A child is {key (an index in a list), kind, start, end, count}.
export async function scanChildren(text, container, { from = null, index = 0, limit, onBatch, signal }) {
  const pauses = new Pauses(signal);
  const isObject = container.kind === "object";
  let place = from ?? skipBlank(text, container.start + 1);
  let batch = [];
  for (let found = 0; found < limit; found += 1) {
    if (place >= container.end - 1) break;
    const { key, value } = isObject ? keyAt(text, place) : { key: index + found, value: place };
    const child = { key, ...(await scanValue(text, value, pauses)) };
    batch.push(child);
    place = skipBlank(text, child.end);
    if (text[place] === ",") place = skipBlank(text, place + 1);
    else if (place < container.end - 1) throw new JsonFault(text, place);
    if (batch.length >= kBatch) {
      onBatch(batch);
      batch = [];
      await pauses.rest();
    }
  }
  if (batch.length > 0) onBatch(batch);
  return place < container.end - 1 ? place : null;
}

// The text of a string, number or word as a person reads it.
export function textOf(text, { start, end }) {
  const written = text.slice(start, end);
  if (!written.startsWith('"')) return written;
  try {
    return JSON.parse(written);
  } catch {
    // An invalid escape: as it is written.
    return written.slice(1, -1);
  }
}
