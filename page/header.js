// The head of the page: names, navigation, the menu of models, and the buttons for report, theme and keys.

import { html, useEffect, useState } from "./lib.js";
import { getJson, isAborted } from "./api.js";
import { clean, shorten } from "./format.js";
import { useFileDialog } from "./parts/drop_area.js";
import { directoryOf, follow, isDropped, kDroppedDepth, link } from "./state.js";
import { chooseTheme, chosenTheme, themeAfter } from "./theme.js";
import { kViews } from "./views/index.js";

const kThemeNames = { auto: "like the system", light: "light", dark: "dark" };
// A circle with a dark half, an arrow into a tray, a folder: shown alone where there is no room for words.
const kThemeIcon = "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm0 1.5a5.5 5.5 0 0 1 0 11Z";
const kSaveIcon = "M7.2 1h1.6v6.6l2.5-2.5 1.1 1.1L8 10.6 3.6 6.2l1.1-1.1 2.5 2.5ZM2 10.5h1.6V13h8.8v-2.5H14v4.1H2Z";
const kOpenIcon = "M1 2.5h5l1.5 1.5H15v9.5H1Zm1.6 1.6v7.8h10.8V5.6H6.8L5.3 4.1Z";

const kToastTime = 10_000; // milliseconds

const nameOf = (path) => path.slice(path.lastIndexOf("/") + 1);

// Whether a model has others beside it: not one that was dropped alone.
const isInDirectory = (path, source) => (isDropped(path) ? path.split("/").length > kDroppedDepth : source?.single === false);

// The models in the directory of the present one; nothing for a source that is one model.
function ModelMenu({ location, source }) {
  const [entries, setEntries] = useState([]);
  const directory = directoryOf(location.model ?? "");
  const isMenu = location.model !== undefined && isInDirectory(location.model, source);
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
    if (path === "") follow(link({ model: null, dir: isDropped(directory) ? directory : null }));
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
  return html`<${Tool} icon=${kThemeIcon} words=${`Theme: ${kThemeNames[theme]}`} hint=${`Change to ${kThemeNames[themeAfter(theme)]}`} onClick=${change} />`;
}

// A button with an icon, and with its words if there is room; they are its name in any case.
function Tool({ icon, words, hint, onClick, isBusy = false }) {
  return html`<button type="button" class="tool" title=${hint} disabled=${isBusy} onClick=${onClick}>
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${icon} fill="currentColor" /></svg>
    <span class="words">${words}</span>
  </button>`;
}

// The report is a file of what the page shows; its dialog is loaded when it is first wanted.
function ReportButton({ onFailure }) {
  const [Dialog, setDialog] = useState(null);
  const [isOpen, setIsOpen] = useState(false);
  const [saved, setSaved] = useState("");
  const open = async () => {
    setSaved("");
    try {
      const { ReportDialog } = await import("./report_dialog.js");
      setDialog(() => ReportDialog);
      setIsOpen(true);
    } catch (error) {
      onFailure(error);
    }
  };
  // Long enough to be read; a screen reader has it at once.
  useEffect(() => {
    const timer = saved && setTimeout(() => setSaved(""), kToastTime);
    return () => clearTimeout(timer);
  }, [saved]);
  return html`
    <${Tool} icon=${kSaveIcon} words="Save report…" hint="Save this view as one HTML file" onClick=${open} />
    ${
      Dialog &&
      isOpen &&
      html`<${Dialog} onClose=${() => setIsOpen(false)} onSaved=${(name) => setSaved(`Saved as ${name}`)} onFailure=${onFailure} />`
    }
    <p class=${saved ? "toast" : "hidden-text"} role="status">${saved}</p>
  `;
}

// Only where the server takes files of this machine.
function OpenButton({ href, onOpening, onFailure }) {
  const { element, show } = useFileDialog(href, onOpening, onFailure);
  return html`${element}<${Tool} icon=${kOpenIcon} words="Open…" hint="Open a model of this machine, or drop it into the page" onClick=${show} />`;
}

function Navigation({ location, present, model }) {
  const shown = kViews.filter((view) => view.isShown(model));
  const currentOf = (view) => (view.id === present.id ? "page" : view.id === present.parent ? "true" : undefined);
  return html`<nav aria-label="Views">
    ${shown.map(
      (view) => html`<a
        key=${view.id}
        href=${link({ view: view.id, dir: location.dir })}
        aria-current=${currentOf(view)}
        >${view.title}</a
      >`,
    )}
  </nav>`;
}

export function Header({ location, view, model, source, onKeys, onOpening, onFailure }) {
  const title = model ? model.title : (source?.source ?? "");
  const home = link({ model: null });
  const path = location.model ?? "";
  const isInMenu = title === nameOf(path) && isInDirectory(path, source);
  return html`<header class="head">
    <a class="product" href=${home}>weightfs</a>
    <span class=${isInMenu ? "title in-menu" : "title"} title=${clean(title)}>${shorten(title, 56)}</span>
    <${ModelMenu} location=${location} source=${source} />
    <${Navigation} location=${location} present=${view} model=${model} />
    <span class="tools">
      ${source?.drop && html`<${OpenButton} href=${source.drop} onOpening=${onOpening} onFailure=${onFailure} />`}
      <${ReportButton} onFailure=${onFailure} />
      <${ThemeButton} />
      <button type="button" aria-label="Help" title="Keys and documents (?)" onClick=${onKeys}>?</button>
    </span>
  </header>`;
}
