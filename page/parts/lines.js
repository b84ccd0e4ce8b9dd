// The lines of a text, cut into rows that fit, and the places where a query is found in it.

const kLeastCharacters = 40;
const kMostHits = 10_000;

// Numbers that are appended one by one; there can be millions.
class Numbers {
  constructor() {
    this.values = new Uint32Array(1024);
    this.length = 0;
  }

  push(value) {
    if (this.length === this.values.length) {
      const larger = new Uint32Array(2 * this.length);
      larger.set(this.values);
      this.values = larger;
    }
    this.values[this.length] = value;
    this.length += 1;
  }

  finished() {
    return this.values.subarray(0, this.length);
  }
}

// The rows of a text: row r begins at starts[r] and belongs to line lines[r] (from 1). No row has more than `most` characters.
export function rowsOf(text, most) {
  const width = Math.max(kLeastCharacters, most);
  const starts = new Numbers();
  const lines = new Numbers();
  let line = 1;
  for (let start = 0; start <= text.length; line += 1) {
    const feed = text.indexOf("\n", start);
    const end = feed < 0 ? text.length : feed;
    let place = start;
    do {
      starts.push(place);
      lines.push(line);
      place += width;
      // The two halves of a surrogate pair stay together.
      if (place < end && (text.charCodeAt(place) & 0xfc00) === 0xdc00) place += 1;
    } while (place < end);
    start = end + 1;
  }
  return { starts: starts.finished(), lines: lines.finished() };
}

// The end of a row, without the characters that end a line.
export function endOf(text, { starts, lines }, row) {
  const isLast = row + 1 === starts.length;
  let end = isLast ? text.length : starts[row + 1];
  const endsLine = !isLast && lines[row + 1] !== lines[row];
  if (endsLine) end -= 1;
  return (isLast || endsLine) && end > starts[row] && text[end - 1] === "\r" ? end - 1 : end;
}

// The last index whose number is at most `wanted`; `numbers` is sorted.
export function lastAtMost(numbers, wanted) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numbers[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// Where `query` is found, ignoring case: {starts, ends, isCut}. At most 10,000 places.
export function hitsOf(text, query) {
  const starts = [];
  const ends = [];
  if (query === "") return { starts, ends, isCut: false };
  const pattern = new RegExp(query.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "gi");
  for (const match of text.matchAll(pattern)) {
    if (starts.length === kMostHits) return { starts, ends, isCut: true };
    starts.push(match.index);
    ends.push(match.index + match[0].length);
  }
  return { starts, ends, isCut: false };
}

// A row as pieces of text: [{text, hit}], where `hit` is the index of the hit or null.
export function piecesOf(text, start, end, hits) {
  const pieces = [];
  let place = start;
  for (let hit = Math.max(0, lastAtMost(hits.starts, start)); hit < hits.starts.length && hits.starts[hit] < end; hit += 1) {
    const from = Math.max(hits.starts[hit], place);
    const to = Math.min(hits.ends[hit], end);
    if (to <= from) continue;
    if (from > place) pieces.push({ text: text.slice(place, from), hit: null });
    pieces.push({ text: text.slice(from, to), hit });
    place = to;
  }
  if (place < end) pieces.push({ text: text.slice(place, end), hit: null });
  return pieces;
}
