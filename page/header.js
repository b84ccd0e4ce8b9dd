// The head of the page: names, navigation, the menu of models, and the buttons for report, theme and keys.

import { html, useEffect, useState } from "./lib.js";
import { getJson, isAborted } from "./api.js";
import { clean, shorten } from "./format.js";
import { follow, link } from "./state.js";
import { chooseTheme, chosenTheme, themeAfter } from "./theme.js";
import { kViews } from "./views/index.js";

const kThemeNames = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };

const directoryOf = (path) => (path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "");

// The models in the directory of the present one; nothing for a source that is one model.
function ModelMenu({ location, source }) {
  const [entries, setEntries] = useState([]);
  const directory = directoryOf(location.model ?? "");
  const isMenu = source?.single === false && location.model !== undefined;
  useEffect(() => {
    if (!isMenu) return undefined;
    const aborter = new AbortController();
    // The menu is a shortcut: without it the list of models still works, so its failure is not shown.
    getJson("models", { dir: directory }, aborter.signal)
      .then((response) => setEntries(response.entries.filter((entry) => entry.kind === "model")))
      .catch((error) => {
        if (!isAborted(error)) setEntries([]);
      });
    return () => aborter.abort();
  }, [directory, isMenu]);
  const hasOthers = entries.length > 1 || directory !== "";
  if (!isMenu || !hasOthers) return null;
  const isListed = entries.some((entry) => entry.path === location.model);
  const choose = (event) => {
    const path = event.target.value;
    if (path === "") follow(link({ model: null }));
    else follow(link({ view: location.view === "tensor" ? "tensors" : location.view, model: path }));
  };
  return html`<select class="models" aria-label="Model" value=${location.model} onChange=${choose}>
    ${!isListed && html`<option value=${location.model}>${shorten(location.model, 40)}</option>`}
    ${entries.map((entry) => html`<option key=${entry.path} value=${entry.path}>${shorten(entry.name, 40)}</option>`)}
    <option value="">All models …</option>
  </select>`;
}

function ThemeButton() {
  const [theme, setTheme] = useState(chosenTheme);
  const change = () => {
    const next = themeAfter(theme);
    chooseTheme(next);
    setTheme(next);
  };
  return html`<button type="button" onClick=${change}>${kThemeNames[theme]}</button>`;
}

// The report is a file of what the page shows; its module is loaded when it is first wanted.
function ReportButton({ onFailure }) {
  const [isBusy, setIsBusy] = useState(false);
  const save = async () => {
    setIsBusy(true);
    try {
      const { saveReport } = await import("./report.js");
      await saveReport();
    } catch (error) {
      if (!isAborted(error)) onFailure(error);
    } finally {
      setIsBusy(false);
    }
  };
  return html`<button type="button" disabled=${isBusy} onClick=${save}>Report</button>`;
}

function Navigation({ present, model }) {
  const shown = kViews.filter((view) => view.isShown(model));
  const currentOf = (view) => (view.id === present.id ? "page" : view.id === present.parent ? "true" : undefined);
  return html`<nav aria-label="Views">
    ${shown.map(
      (view) => html`<a
        key=${view.id}
        href=${link({ view: view.id })}
        aria-current=${currentOf(view)}
        >${view.title}</a
      >`,
    )}
  </nav>`;
}

export function Header({ location, view, model, source, onKeys, onFailure }) {
  const title = model ? model.title : (source?.source ?? "");
  const home = source?.single === false ? link({ model: null }) : link({});
  return html`<header class="head">
    <a class="product" href=${home}>weightfs</a>
    <span class="title" title=${clean(title)}>${shorten(title, 56)}</span>
    <${ModelMenu} location=${location} source=${source} />
    <${Navigation} present=${view} model=${model} />
    <span class="tools">
      <${ReportButton} onFailure=${onFailure} />
      <${ThemeButton} />
      <button type="button" aria-label="Keys" title="Keys (?)" onClick=${onKeys}>?</button>
    </span>
  </header>`;
}
