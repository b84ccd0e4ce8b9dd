// Colours for numbers, which are readable without colour vision: the same as those of `weightfs plot`.

// Colours at equal distances; those between them are interpolated.
const kStops = {
  cividis: [
    [0, 32, 77],
    [0, 51, 111],
    [57, 72, 107],
    [87, 92, 109],
    [112, 113, 115],
    [138, 135, 121],
    [166, 157, 117],
    [196, 181, 108],
    [228, 207, 91],
    [255, 234, 70],
  ],
  "blue-orange": [
    [16, 60, 130],
    [66, 126, 196],
    [158, 200, 234],
    [247, 247, 247],
    [253, 196, 130],
    [230, 126, 34],
    [140, 62, 0],
  ],
  grey: [
    [20, 20, 20],
    [245, 245, 245],
  ],
};

// The names of the palettes: cividis for magnitudes, blue-orange for numbers of both signs, grey for prints.
export const kPalettes = Object.keys(kStops);

// NaN, infinities, and cells without a finite number.
export const kNotFinite = [214, 0, 147];

// Lines of a chart, told apart by all readers (Okabe and Ito).
const kLines = { light: ["#0072b2", "#c65102", "#007d5d"], dark: ["#56b4e9", "#e69f00", "#2fc79a"] };

// The colour [red, green, blue] of a place from 0 to 1; places outside have the colours of the ends.
export function colourAt(palette, place) {
  if (Number.isNaN(place)) return kNotFinite;
  const stops = kStops[palette] ?? kStops.cividis;
  const scaled = Math.min(1, Math.max(0, place)) * (stops.length - 1);
  const below = Math.min(Math.floor(scaled), stops.length - 2);
  return stops[below].map((from, i) => Math.round(from + (stops[below + 1][i] - from) * (scaled - below)));
}

// The place of a number on a scale {low, high, palette}, from 0 to 1. Blue-orange has its middle at 0 if the scale has both signs.
export function placeOf(value, { low, high, palette }) {
  if (!Number.isFinite(value)) return NaN;
  const isAroundZero = palette === "blue-orange" && low < 0 && high > 0;
  const limit = Math.max(Math.abs(low), Math.abs(high));
  const [from, to] = isAroundZero ? [-limit, limit] : [low, high];
  if (!(to > from)) return palette === "blue-orange" ? 0.5 : 0;
  const cut = Math.min(high, Math.max(low, value));
  // The difference itself may overflow.
  return (cut / 2 - from / 2) / (to / 2 - from / 2);
}

// The colour [red, green, blue] of a number on a scale.
export const colourOf = (value, scale) => colourAt(scale.palette, placeOf(value, scale));

// A colour as CSS text.
export const cssColour = ([red, green, blue]) => `rgb(${red}, ${green}, ${blue})`;

// Black or white, whichever is readable on a colour: the contrast is at least 4.5.
export function inkOn(colour) {
  const [red, green, blue] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}

// The colour of a line by its number, for the theme "light" or "dark"; they repeat.
export function lineColour(line, theme) {
  const colours = kLines[theme];
  return colours[line % colours.length];
}
