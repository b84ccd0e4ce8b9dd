// Numbers, sizes and names as text. Every text of a model goes through clean() or shorten() before it is shown.

const kMultiply = "×";

// "131,072"; the same in every locale.
export function formatCount(count) {
  if (count === null || count === undefined || !Number.isFinite(count)) return "–";
  return String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ",");
}

// `value` with so many decimals; a value in the middle between two becomes the even one, as in what the commands print.
function fixed(value, decimals) {
  const factor = 10 ** decimals;
  const isMiddle = Number.isInteger(value * 8) && (value * factor) % 1 === 0.5;
  if (!isMiddle) return value.toFixed(decimals);
  const below = Math.floor(value * factor);
  return ((below + (below % 2)) / factor).toFixed(decimals);
}

// Three digits: 8.03, 52.5, 525.
const threeDigits = (value) => fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);

// `count` in the largest of `units` (each `base` times the one before) in which it is at least 1. Fractions of the first unit are of
// no interest. The rule is that of the commands (report/text/style.cc), so that one number is never shown in two ways.
function scaled(count, base, [small, ...units]) {
  const value = count / base;
  if (value < base - 0.5) return `${fixed(value, value < 9.95 ? 1 : 0)} ${small}`;
  let unit = 0;
  let rest = value / base;
  // 999.5 would be written as 1000.
  for (; rest >= base - 0.5 && unit + 1 < units.length; unit += 1) rest /= base;
  return `${threeDigits(rest)} ${units[unit]}`;
}

// "8.03 B", "525 M", "4.1 k"; below 1,000 exact.
export function formatParameters(count) {
  if (count === null || count === undefined || !Number.isFinite(count)) return "–";
  return count < 1000 ? String(count) : scaled(count, 1000, ["k", "M", "B", "T"]);
}

// "4.58 GiB", "16 KiB", "16 B".
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined || !Number.isFinite(bytes)) return "–";
  return bytes < 1024 ? `${bytes} B` : scaled(bytes, 1024, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]);
}

// "69 %" of a share from 0 to 1; small shares are not shown as 0.
export function formatPercent(share) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const percent = share * 100;
  if (percent === 0) return "0 %";
  if (Math.abs(percent) < 0.1) return percent > 0 ? "< 0.1 %" : "> −0.1 %";
  return `${percent.toFixed(Math.abs(percent) < 9.95 ? 1 : 0)} %`;
}

// At most four significant digits; an exponent only when needed; null is "–".
export function formatNumber(number) {
  if (number === null || number === undefined) return "–";
  if (typeof number !== "number") return clean(String(number));
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "NaN" : number > 0 ? "∞" : "−∞";
  const size = Math.abs(number);
  if (size === 0) return "0";
  if (size >= 1e6 || size < 1e-4) {
    const [digits, exponent] = number.toExponential(3).split("e");
    return `${Number(digits)}e${Number(exponent)}`.replaceAll("-", "−");
  }
  if (size >= 9999.5) return number < 0 ? `−${formatCount(size)}` : formatCount(size);
  return String(Number(number.toPrecision(4))).replaceAll("-", "−");
}

// "2 × 3"; "scalar" for [].
export function formatShape(shape) {
  if (!shape || shape.length === 0) return "scalar";
  return shape.join(` ${kMultiply} `);
}

// Control, bidirectional and other invisible characters, and halves of surrogate pairs.
const kUnsafe = new RegExp(
  [
    /[\u0000-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180E]/,
    /[\u200B-\u200F\u2028-\u202F\u2060-\u206F\u3164\uFEFF\uFFA0\uFFF0-\uFFFB]/,
    /[\u{E0000}-\u{E0FFF}]|\p{Surrogate}/u,
  ]
    .map((pattern) => pattern.source)
    .join("|"),
  "gu",
);

function visible(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  const digits = code.toString(16).toUpperCase();
  return code > 0xffff ? `\\u{${digits}}` : `\\u${digits.padStart(4, "0")}`;
}

// Text with its control, bidirectional and invisible characters as visible escapes: "␀", "\u202E".
export function clean(text) {
  return String(text ?? "").replace(kUnsafe, visible);
}

// clean() of a text of several lines: line feeds and tabs stay.
export function cleanLines(text) {
  return String(text ?? "").replace(kUnsafe, (found) => (found === "\n" || found === "\t" ? found : visible(found)));
}

// clean(), and at most `most` characters: the middle is replaced by "…".
export function shorten(text, most = 48) {
  const characters = [...clean(text)];
  if (characters.length <= most) return characters.join("");
  const head = Math.ceil((most - 1) / 2);
  const tail = most - 1 - head;
  return `${characters.slice(0, head).join("")}…${tail > 0 ? characters.slice(-tail).join("") : ""}`;
}

// A cosine, of which all digits matter near 1: only that of equal directions is 1.
export function formatCosine(cosine) {
  const text = cosine.toFixed(6);
  if (text === "1.000000" && cosine < 1) return "> 0.999999";
  return text === "-0.000000" ? "0.000000" : text.replace("-", "−");
}
