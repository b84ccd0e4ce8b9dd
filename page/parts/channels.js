// RMS and largest absolute of each channel of an axis, of one tensor or with the difference to another, and the largest channels.

import { html, useEffect, useMemo, useRef, useState } from "../lib.js";
import { getJson } from "../api.js";
import { formatBytes, formatCount, formatNumber } from "../format.js";
import { kMostUnasked } from "./amounts.js";
import { Curves } from "./curves.js";
import { Failure, Loading, useLoad } from "./load.js";

const kTop = 20;

// Whether an element has been near the visible part of the page: channels need all elements, so they are not read before.
function useSeen() {
  const element = useRef(null);
  const [isSeen, setIsSeen] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) setIsSeen(true);
      },
      { rootMargin: "200px" },
    );
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, isSeen];
}

function chartOf({ axis, rms, largest, difference }, isLogarithmic) {
  const lines = [
    { name: "RMS", values: rms },
    { name: "largest absolute", values: largest },
  ];
  if (difference) lines.push({ name: "RMS of the difference", values: difference });
  return {
    label: `Channels of axis ${axis}: ${lines.map(({ name }) => name).join(", ")} of each of ${formatCount(rms.length)}`,
    x: rms.map((_, channel) => channel),
    lines,
    xLabel: `index on axis ${axis}`,
    yLabel: "absolute",
    isLogarithmic,
    isWhole: true,
    placeOf: (channel) => `channel ${formatCount(channel)}`,
  };
}

// The channels with the largest numbers of the last line: the difference, or else the largest absolutes.
function tableOf(chart) {
  const { name, values } = chart.lines.at(-1);
  const rows = () =>
    chart.x
      .toSorted((a, b) => (values[b] ?? -Infinity) - (values[a] ?? -Infinity))
      .slice(0, kTop)
      .map((channel) => [formatCount(channel), ...chart.lines.map((line) => formatNumber(line.values[channel]))]);
  return {
    label: `The ${kTop} channels with the largest numbers: ${name}`,
    head: ["channel", ...chart.lines.map((line) => line.name)],
    rows,
  };
}

function Chart({ response }) {
  const [isLogarithmic, setIsLogarithmic] = useState(false);
  const chart = useMemo(() => chartOf(response, isLogarithmic), [response, isLogarithmic]);
  return html`<label class="check">
      <input type="checkbox" checked=${isLogarithmic} onChange=${(event) => setIsLogarithmic(event.target.checked)} />
      Logarithmic
    </label>
    <${Curves} chart=${chart} table=${tableOf(chart)} />`;
}

// `source` as of a heat map. A tensor with fewer than two axes has no channels.
export function Channels({ source }) {
  const { shape, bytes } = source;
  const [axis, setAxis] = useState(shape.length - 1);
  const [isWanted, setIsWanted] = useState(bytes <= kMostUnasked);
  const [section, isSeen] = useSeen();
  const isRead = isWanted && isSeen;
  const { value, error, isLoading, retry } = useLoad(
    async (signal) => (isRead ? getJson("channels", { ...source.parameters, axis }, signal) : null),
    [isRead, axis],
  );
  return html`<section class="panel" aria-label="Channels" ref=${section}>
    <div class="toolbar">
      <h2>Channels</h2>
      <label>
        Axis
        <select value=${String(axis)} onChange=${(event) => setAxis(Number(event.target.value))}>
          ${shape.map((count, i) => html`<option value=${String(i)}>axis ${i} (${formatCount(count)})</option>`)}
        </select>
      </label>
    </div>
    ${!isWanted && html`<button type="button" onClick=${() => setIsWanted(true)}>Read all elements (${formatBytes(bytes)})</button>`}
    ${isRead && isLoading && html`<${Loading} text="Reading …" />`}
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${value && !error && html`<${Chart} response=${value} />`}
  </section>`;
}
