// The page: loads the model that the URL names, and shows the view that it names.

import { html, render, useCallback, useEffect, useErrorBoundary, useLayoutEffect, useState } from "./lib.js";
import { getJson, onModelChange } from "./api.js";
import { shorten } from "./format.js";
import { Header } from "./header.js";
import { HelpDialog } from "./help.js";
import { useKeys } from "./keys.js";
import { rememberModel } from "./last_model.js";
import { DropArea } from "./parts/drop_area.js";
import { Failure, Loading, useLoad } from "./parts/load.js";
import { go, handleLinks, useLocation } from "./state.js";
import { viewOf } from "./views/index.js";

// The model at `path`, or null after a step to the list of what is there: a directory may hold models without being one.
async function loadModel(path, signal) {
  try {
    return await getJson("model", { model: path }, signal);
  } catch (error) {
    if (error.status !== 404 || path === "") throw error;
    const { entries } = await getJson("models", { dir: path }, signal).catch(() => ({ entries: [] }));
    if (!entries.some((entry) => entry.kind !== "file" && entry.path.startsWith(`${path}/`))) throw error;
    go({ view: null, model: null, dir: path }, { replace: true });
    return null;
  }
}

// The model of the URL: null for a directory of models, undefined until it is known.
function useModel(location, source) {
  const path = location.model ?? "";
  const isModel = location.model !== undefined || (source?.single === true && location.dir === undefined);
  const isKnown = location.model !== undefined || source !== undefined;
  const load = async (signal) => {
    if (!isKnown) return undefined;
    return { path, isModel, model: isModel ? await loadModel(path, signal) : null };
  };
  const { value, error, retry } = useLoad(load, [path, isModel, isKnown]);
  useEffect(() => onModelChange(retry), [retry]);
  const isPresent = value?.path === path && value.isModel === isModel;
  return { model: isPresent ? value.model : undefined, error, retry };
}

// The components of the views that were shown.
const components = new Map();

// The component of a view; its module is loaded when it is first shown.
function useView(view) {
  const load = async () => components.set(view.id, (await view.load()).default);
  const { error, retry } = useLoad(load, [view.id]);
  return { component: components.get(view.id), error, retry };
}

// Shows its children; a fault in one of them becomes a sentence, and the rest of the page stays.
function Guard({ children }) {
  const [error, reset] = useErrorBoundary((fault) => console.error(fault));
  if (error) return html`<${Failure} error=${`This view failed: ${error.message}`} retry=${reset} />`;
  return children;
}

// The view and its place whose heading had the focus last; a first view takes no focus.
let headedPlace = null;

// Moves the focus to the main heading after a navigation, so that a screen reader announces it. A heading that is not there yet gets
// the focus when it comes, unless the focus has moved on.
function useHeadingFocus(place, isReady) {
  useLayoutEffect(() => {
    if (!isReady || headedPlace === place) return undefined;
    const isFirst = headedPlace === null;
    headedPlace = place;
    if (isFirst) return undefined;
    scrollTo(0, 0);
    const main = document.querySelector("main");
    const focusHeading = () => {
      const heading = main.querySelector("h1");
      if (!heading) return false;
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
      return true;
    };
    if (focusHeading()) return undefined;
    main.focus({ preventScroll: true });
    const observer = new MutationObserver(() => {
      if (document.activeElement !== main || focusHeading()) observer.disconnect();
    });
    observer.observe(main, { childList: true, subtree: true });
    return () => observer.disconnect();
  }, [place, isReady]);
}

function View({ location, model, source, view }) {
  const { component, error, retry } = useView(view);
  useHeadingFocus([view.id, location.model, location.dir, location.t].join("\n"), component !== undefined);
  if (error) return html`<${Failure} error="This view could not be loaded; the server may have ended." retry=${retry} />`;
  if (!component) return html`<${Loading} />`;
  return html`<${component} location=${location} model=${model} source=${source} />`;
}

function App() {
  const location = useLocation();
  const [isHelpOpen, setIsHelpOpen] = useState(false);
  const [failure, setFailure] = useState(null);
  const [opening, setOpening] = useState("");
  const { value: source, error: sourceError, retry: retrySource } = useLoad((signal) => getJson("models", {}, signal), []);
  const { model, error: modelError, retry: retryModel } = useModel(location, source);
  const view = viewOf(location.view, model);
  const openHelp = useCallback(() => setIsHelpOpen(true), []);
  useKeys({ "?": openHelp });
  useEffect(() => setFailure(null), [view.id, location.model, location.dir]);
  useEffect(() => {
    if (model) rememberModel(model.path);
  }, [model]);
  const title = model ? shorten(model.title, 60) : shorten(source?.source ?? "", 60);
  useEffect(() => {
    document.title = [view.title, title, "weightfs"].filter(Boolean).join(" · ");
  }, [view.title, title]);

  const error = modelError ?? (model === undefined ? sourceError : null);
  const retry = modelError ? retryModel : retrySource;
  const skip = (event) => {
    event.preventDefault();
    document.querySelector("main").focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Header} location=${location} view=${view} model=${model ?? null} source=${source} onKeys=${openHelp} onOpening=${setOpening}
      onFailure=${setFailure} />
    <main id="main" class=${`view-${view.id}`} tabindex="-1">
      ${failure && html`<${Failure} error=${failure} />`}
      ${error && model === undefined && html`<h1 class="hidden-text">${view.title}</h1>`}
      ${error && html`<${Failure} error=${error} retry=${retry} />`}
      ${
        model === undefined
          ? !error && html`<${Loading} />`
          : html`<${Guard} key=${[view.id, model?.path, model?.v].join("\n")}>
            <${View} location=${location} model=${model} source=${source} view=${view} />
          <//>`
      }
    </main>
    <${DropArea} href=${source?.drop} onOpening=${setOpening} onFailure=${setFailure} />
    <p class=${opening ? "toast" : "hidden-text"} role="status">${opening}</p>
    <${HelpDialog} view=${view} isOpen=${isHelpOpen} onClose=${() => setIsHelpOpen(false)} />
  `;
}

handleLinks();
render(html`<${App} />`, document.getElementById("app"));
