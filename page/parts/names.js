// Names of tensors in a column that is too narrow for them. What all of them begin with is left out first, then ".weight", then what
// is before the layer; then words are cut. A number is never cut, and different names stay different.

import { clean, shorten } from "../format.js";

const kEllipsis = "…";
const kUsualEnding = ".weight";
const kMostWord = 12;

const lengthOf = (text) => [...text].length;

// Words between points and slashes, or between underscores in a name with neither, each with what divides it from the next one.
const wordsOf = (text) => text.match(/[./]/.test(text) ? /[^./]*[./]?/g : /[^_]*_?/g).filter((word) => word !== "");
const isNumber = (word) => /^\u2026?\d+[./_]?$/.test(word);

// `word` without all but its first `most` letters; its last character remains if it divides words.
function cutWord(word, most) {
  const divider = /[./_]$/.test(word) ? word.at(-1) : "";
  const letters = [...word.slice(0, word.length - divider.length)];
  return letters.length <= most + 1 || isNumber(word) ? word : letters.slice(0, most).join("") + kEllipsis + divider;
}

// `name` without what is before its first number, if that is a word of its own.
function fromLayer(name) {
  const words = wordsOf(name);
  const first = words.findIndex(isNumber);
  return first > 0 ? kEllipsis + words.slice(first).join("") : name;
}

// `name` with its words cut, the last one less than the others; at last only the numbers and the last word remain.
function* formsOfWords(name) {
  const words = wordsOf(name);
  const last = words.length - 1;
  for (let most = kMostWord; most > 0; most -= 1) {
    yield words.map((word, i) => cutWord(word, i < last ? most : Math.max(most, 4))).join("");
  }
  const kept = words.map((word, i) => (i === last || isNumber(word) ? word : kEllipsis)).join("");
  yield kept.replace(/\u2026+/g, kEllipsis);
}

// Shorter and shorter forms of a name.
function* formsOf(name, prefix) {
  yield name;
  const isCut = prefix !== "" && name.startsWith(prefix) && name.length > prefix.length;
  let rest = isCut ? kEllipsis + name.slice(prefix.length) : name;
  yield rest;
  if (rest.endsWith(kUsualEnding) && rest.length > kUsualEnding.length + 1) rest = rest.slice(0, -kUsualEnding.length);
  yield rest;
  rest = fromLayer(rest);
  yield rest;
  yield* formsOfWords(rest);
}

function firstFitting(forms, most) {
  for (const form of forms) if (lengthOf(form) <= most) return form;
  return null;
}

// How many characters all of the texts begin with, and how many they end with.
function commonEnds(texts) {
  const least = Math.min(...texts.map((text) => text.length));
  const count = (isSame) => {
    let length = 0;
    while (length < least && texts.every((text) => isSame(text, length))) length += 1;
    return length;
  };
  const [first] = texts;
  const begin = count((text, i) => text[i] === first[i]);
  const end = count((text, i) => text.at(-1 - i) === first.at(-1 - i));
  return [begin, Math.min(end, least - begin)];
}

// Names that would look alike, as texts that differ: by their words, or by what is different with as much around it as fits.
function distinct(names, most) {
  const byWords = names.map((name) => firstFitting(formsOfWords(name), most));
  if (!byWords.includes(null) && new Set(byWords).size === names.length) return byWords;
  const [begin, end] = commonEnds(names);
  return names.map((name) => {
    const room = most - (name.length - begin - end) - 2;
    const before = Math.max(0, Math.min(begin, Math.floor(room / 2)));
    const after = Math.max(0, Math.min(end, room - before));
    const [from, to] = [begin - before, name.length - end + after];
    const text = (from > 0 ? kEllipsis : "") + name.slice(from, to) + (to < name.length ? kEllipsis : "");
    return lengthOf(text) <= most ? text : shorten(text, most);
  });
}

// The names as texts of at most `most` characters. `prefix` is what all names of the list begin with.
export function fitNames(names, most, prefix = "") {
  const cleaned = names.map(clean);
  const texts = cleaned.map((name) => firstFitting(formsOf(name, clean(prefix)), most) ?? shorten(name, most));
  const alike = new Map();
  texts.forEach((text, i) => alike.set(text, [...(alike.get(text) ?? []), i]));
  for (const places of alike.values()) {
    const different = [...new Set(places.map((i) => cleaned[i]))];
    if (different.length < 2) continue;
    const shown = distinct(different, most);
    for (const i of places) texts[i] = shown[different.indexOf(cleaned[i])];
  }
  return texts;
}
