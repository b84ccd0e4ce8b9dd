// Two models: what is missing, added, renamed or different, how far the numbers are apart, and pairs of tensors in pictures.

import { html, useEffect, useLayoutEffect, useMemo } from "../lib.js";
import { clean, formatCount, formatNumber, formatParameters, shorten } from "../format.js";
import { lastModel } from "../last_model.js";
import { CompareChoice } from "../parts/compare_choice.js";
import { CompareLists, Unreadable } from "../parts/compare_lists.js";
import { CompareStart } from "../parts/compare_start.js";
import { CompareTable, pairLink } from "../parts/compare_table.js";
import { elementsOf, rowOfPair, rowsOf } from "../parts/comparison.js";
import { Failure } from "../parts/load.js";
import { Pair } from "../parts/pair.js";
import { Progress, useStream } from "../parts/progress.js";
import { follow, go } from "../state.js";

// Deviations of more elements than this are computed only when a person asks for them.
const kMostElements = 64 << 20;

// A repository of the Hub beside a GGUF.
function Mapped({ names }) {
  const unmapped = names.unmapped > 0 ? ` ${formatCount(names.unmapped)} of them have no place there.` : "";
  return `The tensors of ${names.source.toUpperCase()} are compared as a GGUF has them.${unmapped} `;
}

function Summary({ found, rows }) {
  if (found.equal) return html`<p class="notice">Both models are equal.</p>`;
  const countOf = (change) => rows.filter((row) => row.change === change).length;
  const parts = [
    [found.equal_tensors, "equal"],
    [countOf("other numbers"), "with other numbers"],
    [countOf("other type"), "of another type"],
    [countOf("other shape"), "of another shape"],
    [found.renamed.length, "renamed"],
    [found.missing.length, "only in A"],
    [found.added.length, "only in B"],
  ];
  const texts = parts.filter(([count]) => count > 0).map(([count, what]) => `${formatCount(count)} ${what}`);
  const { stat } = found;
  return html`<p>
    ${found.mapped_names && html`<${Mapped} names=${found.mapped_names} />`}
    ${found.names_not_mapped && `Names are compared as both store them: ${found.names_not_mapped}. `}
    Tensors: ${texts.join(", ")}.
    ${stat && stat.count > 0 && html` All that differ together: SNR ${formatNumber(stat.snr_db)} dB, largest difference ${formatNumber(stat.max)}.`}
  </p>`;
}

function Deviations({ rows, structure, deviations, onStart }) {
  const elements = elementsOf(rows);
  if (deviations.isRunning) {
    return html`<${Progress}
      progress=${deviations.progress}
      what="Computing deviations"
      onCancel=${deviations.cancel}
    />`;
  }
  if (!structure.value || deviations.value || elements === 0) return null;
  return html`<p>
    <button type="button" onClick=${onStart}>Compute deviations (${formatParameters(elements)} numbers of each)</button>
  </p>`;
}

// The comparison of two models: its lists first, then the deviations, which read both tensors of each pair.
function useComparison(a, b, isWanted) {
  const structure = useStream();
  const deviations = useStream();
  const compare = () => structure.start("compare", { a, b });
  const measure = () => deviations.start("compare", { a, b, values: 1 });
  useEffect(() => {
    if (isWanted && !structure.value && !structure.isRunning) compare();
  }, [isWanted]);
  // Before the page is painted, so that the button for the deviations does not flash.
  useLayoutEffect(() => {
    if (!structure.value) return;
    const elements = elementsOf(rowsOf(structure.value));
    if (elements > 0 && elements <= kMostElements) measure();
  }, [structure.value]);
  const found = deviations.value ?? structure.value;
  const rows = useMemo(() => (found ? rowsOf(found) : []), [found]);
  return { found, rows, structure, deviations, compare, measure };
}

function Comparison({ a, b, location }) {
  const isPair = location.t !== undefined && location.t2 !== undefined;
  const { found, rows, structure, deviations, compare, measure } = useComparison(a, b, !isPair);
  if (isPair) {
    const row = rowOfPair(rows, Number(location.t), Number(location.t2));
    const key = [location.t, location.t2, location.names, location.names2].join("\n");
    return html`<${Pair} key=${key} a=${a} b=${b} location=${location} row=${row} />`;
  }
  return html`<div class="stack">
    ${structure.isRunning && html`<${Progress} progress=${structure.progress} what="Comparing" onCancel=${structure.cancel} />`}
    ${structure.isCancelled && !found && html`<p><button type="button" onClick=${compare}>Compare again</button></p>`}
    ${structure.error && html`<${Failure} error=${structure.error} retry=${compare} />`}
    ${deviations.error && html`<${Failure} error=${deviations.error} retry=${measure} />`}
    ${found && html`<${Summary} found=${found} rows=${rows} />`}
    ${found && html`<${Unreadable} unreadable=${found.unreadable} />`}
    <${Deviations} rows=${rows} structure=${structure} deviations=${deviations} onStart=${measure} />
    ${rows.length > 0 && html`<${CompareTable} rows=${rows} onOpen=${(row) => follow(pairLink(row))} />`}
    ${found && html`<${CompareLists} found=${found} />`}
  </div>`;
}

export default function CompareView({ location, source }) {
  const a = location.a ?? location.model ?? lastModel() ?? undefined;
  const { b } = location;
  const choose = (paths) =>
    go({
      a: paths.a,
      b: paths.b,
      t: null,
      t2: null,
      names: null,
      names2: null,
      window: null,
      low: null,
      high: null,
      axes: null,
      at: null,
    });
  const isChosen = a !== undefined && b !== undefined;
  const isPairOfOne = location.t !== undefined && location.t2 !== undefined;
  const title = isChosen ? `${shorten(a, 60)} and ${shorten(b, 60)}` : "Compare two models";
  return html`<div class="stack">
    <h1 title=${isChosen ? `${clean(a)} and ${clean(b)}` : undefined}>${title}</h1>
    ${
      isChosen || isPairOfOne
        ? html`<${CompareChoice} a=${a} b=${b} onChange=${choose} />`
        : html`<${CompareStart} key=${a} location=${location} source=${source} a=${a} />`
    }
    ${
      (isChosen || isPairOfOne) &&
      html`<${Comparison} key=${`${a ?? ""}\n${b ?? ""}`} a=${a ?? ""} b=${b ?? ""} location=${location} />`
    }
  </div>`;
}
