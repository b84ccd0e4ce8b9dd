// The view of a model's graph: its groups as a drawing, the path to the group that is open, a search, and a panel for a node.

import { html, useCallback, useRef, useState } from "../lib.js";
import { isAborted } from "../api.js";
import { formatCount, shorten } from "../format.js";
import { GraphClient } from "../graph/client.js";
import { Drawing } from "../graph/drawing.js";
import { Finder } from "../graph/finder.js";
import { List } from "../graph/list.js";
import { Panel } from "../graph/panel.js";
import { useKeys } from "../keys.js";
import { Failure, Loading, useLoad } from "../parts/load.js";
import { fileNameOf, save } from "../save.js";
import { go, link } from "../state.js";

const kMostGraphs = 1000; // in the menu

// A number of the URL; undefined if it is none.
function numberOf(text) {
  return /^\d{1,9}$/.test(text ?? "") ? Number(text) : undefined;
}

// The worker with the graphs of the model: {client, graphs}. It ends when the view does.
function useGraphs(model) {
  const load = async (signal) => {
    const client = new GraphClient();
    signal.addEventListener("abort", () => client.close());
    return { client, graphs: await client.load(model, signal) };
  };
  return useLoad(load, [model.path, model.v]);
}

function GraphMenu({ graphs, chosen }) {
  if (graphs.length === 1) return null;
  return html`<label>
    Graph
    <select value=${String(chosen)} onChange=${(event) => go({ graph: event.target.value, group: null, node: null })}>
      ${graphs
        .slice(0, kMostGraphs)
        .map(
          ({ title, operators }, index) =>
            html`<option key=${index} value=${String(index)}>${shorten(title, 60)} (${formatCount(operators)})</option>`,
        )}
    </select>
  </label>`;
}

const graphHref = (changes) => link({ node: null, ...changes }, { keep: true });

function Path({ layout, title }) {
  const last = layout.path.length - 1;
  return html`<nav class="group-path" aria-label="Path of groups">
    <ol>
      ${layout.path.map(({ group, label }, index) => {
        const text = index === 0 ? title : label;
        const name = html`<span title=${shorten(text, 1000)}>${shorten(text, 32)}</span>`;
        return html`<li key=${group}>
          ${
            index === last
              ? html`<span aria-current="page">${name}</span>`
              : html`<a href=${graphHref({ group: group === 0 ? null : group })}>${name}</a>`
          }
        </li>`;
      })}
    </ol>
  </nav>`;
}

// The menu of the groups that are equal to this one.
function Siblings({ layout }) {
  if (layout.siblings.length < 2) return null;
  return html`<label>
    One of ${formatCount(layout.siblings.length)} equal groups
    <select value=${String(layout.group)} onChange=${(event) => go({ group: event.target.value, node: null })}>
      ${layout.siblings.map(({ group, label }) => html`<option key=${group} value=${String(group)}>${shorten(label, 40)}</option>`)}
    </select>
  </label>`;
}

const counted = (count, word) => `${formatCount(count)} ${word}${count === 1 ? "" : "s"}`;

function Summary({ layout }) {
  const constants = layout.constants > 0 ? `, ${counted(layout.constants, "constant")}` : "";
  return html`<span class="muted" role="status">
    ${counted(layout.operators, "operator")}${constants}; ${counted(layout.elements.length, "element")} shown
  </span>`;
}

function Zoom({ handle }) {
  const button = (text, title, action) =>
    html`<button type="button" title=${title} onClick=${() => action(handle.current)}>${text}</button>`;
  return html`<span class="zoom">
    ${button("+", "Zoom in (+)", ({ pan }) => pan.zoom(1.25))} ${button("−", "Zoom out (−)", ({ pan }) => pan.zoom(0.8))}
    ${button("All", "Show all (0)", ({ fit }) => fit())}
  </span>`;
}

// Saves all graphs as a file that Model Explorer opens.
function Save({ client, model }) {
  const [isBusy, setIsBusy] = useState(false);
  const [failure, setFailure] = useState(null);
  const act = async () => {
    setIsBusy(true);
    setFailure(null);
    try {
      save(await client.modelExplorerFile(model.title), `${fileNameOf(model.title)}.model-explorer.json`);
    } catch (error) {
      if (!isAborted(error)) setFailure(error);
    } finally {
      setIsBusy(false);
    }
  };
  return html`<span>
    <button type="button" disabled=${isBusy} title="Save all graphs as a file that Model Explorer opens" onClick=${act}>
      Save for Model Explorer
    </button>
    ${failure && html`<span role="alert">${failure.message}</span>`}
  </span>`;
}

// The keys of the view; arrows move the drawing unless one of its boxes has the focus.
function useGraphKeys({ field, handle, layout, node }) {
  const up = () => {
    if (node !== undefined) go({ node: null }, { replace: true });
    else if (layout?.group > 0) go({ group: layout.path.at(-2).group || null });
  };
  const withPan = (action) => () => handle.current && action(handle.current);
  useKeys({
    "/": () => field.current?.focus(),
    Escape: up,
    "+": withPan(({ pan }) => pan.zoom(1.25)),
    "=": withPan(({ pan }) => pan.zoom(1.25)),
    "-": withPan(({ pan }) => pan.zoom(0.8)),
    0: withPan(({ fit }) => fit()),
    ArrowLeft: withPan(({ pan }) => pan.step(-1, 0)),
    ArrowRight: withPan(({ pan }) => pan.step(1, 0)),
    ArrowUp: withPan(({ pan }) => pan.step(0, -1)),
    ArrowDown: withPan(({ pan }) => pan.step(0, 1)),
  });
}

function Shown({ model, client, graphs, location }) {
  const graph = numberOf(location.graph) ?? 0;
  const group = numberOf(location.group);
  const node = numberOf(location.node);
  // Without a group, a node is shown in its own.
  const wanted = group ?? (node === undefined ? 0 : undefined);
  const ofNode = wanted === undefined ? node : undefined;
  const { value: layout, error, retry } = useLoad(() => client.layOut(graph, wanted, ofNode), [client, graph, wanted, ofNode]);
  const field = useRef(null);
  const handle = useRef(null);
  const find = useCallback((text) => client.find(graph, text), [client, graph]);
  const details = useCallback(() => client.details(graph, node), [client, graph, node]);
  useGraphKeys({ field, handle, layout, node });

  const choose = (found) => go({ group: found.group, node: found.node });
  const activate = (element) => {
    if (element.kind === "group") go({ group: element.group, node: null });
    else if (element.kind === "outside") go({ group: element.group ?? layout.group, node: element.node ?? null });
    else go({ group: layout.group, node: element.node === node ? null : element.node }, { replace: true });
  };
  if (error) return html`<${Failure} error=${error} retry=${retry} />`;
  if (!layout || layout.graph !== graph) return html`<${Loading} text="Reading the graph …" />`;
  const title = graphs[graph].title;
  return html`
    <div class="toolbar">
      <${GraphMenu} graphs=${graphs} chosen=${graph} />
      <${Path} layout=${layout} title=${title} />
      <${Siblings} layout=${layout} />
      <span class="grow"></span>
      <${Finder} field=${field} find=${find} onChoose=${choose} />
      <${Zoom} handle=${handle} />
      <${Save} client=${client} model=${model} />
    </div>
    <${Summary} layout=${layout} />
    ${layout.elements.length === 0 && html`<p>This graph has no operators: the file has tensors only.</p>`}
    <div class=${node === undefined ? "graph-body" : "graph-body with-panel"}>
      <${Drawing} layout=${layout} chosen=${node} handle=${handle} label="Graph" onActivate=${activate} />
      ${
        node !== undefined &&
        html`<${Panel} model=${model} node=${node} load=${details} onClose=${() => go({ node: null }, { replace: true })} />`
      }
    </div>
    <${List} layout=${layout} onActivate=${activate} />
  `;
}

export default function GraphView({ location, model }) {
  const { value, error, retry } = useGraphs(model);
  return html`<div class="graph-view">
    <h1 class="hidden-text">Graph</h1>
    ${error && html`<${Failure} error=${error} retry=${retry} />`}
    ${
      value
        ? html`<${Shown} model=${model} client=${value.client} graphs=${value.graphs} location=${location} />`
        : !error && html`<${Loading} text="Reading the graph …" />`
    }
  </div>`;
}
