// Files that are dropped anywhere on the page, and the button that opens the dialog for them.

import { html, useCallback, useEffect, useRef, useState } from "../lib.js";
import { getJson } from "../api.js";
import { formatCount, shorten } from "../format.js";
import { follow, link } from "../state.js";

const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

// The last drop: one that is not yet opened ends with the next one, and when another place of the page is shown.
let newest = new AbortController();

// Shows what the files are: a model, or a directory of them. `choose` makes their list, from what belongs to an event.
async function open(choose, href, onOpening, onFailure) {
  newest.abort();
  const { signal } = (newest = new AbortController());
  const place = location.href;
  const isWanted = () => !signal.aborted && location.href === place;
  onFailure(null);
  try {
    const dropped = await import("../dropped.js");
    const files = await choose(dropped);
    if (!isWanted() || files.length === 0) return;
    onOpening(`Opening ${files.length === 1 ? shorten(files[0].path, 60) : `${formatCount(files.length)} files`} …`);
    const path = await dropped.offerFiles(files, href);
    const { kind } = await getJson("entry", { path }, signal);
    if (isWanted()) follow(link(kind === "directory" ? { model: null, dir: path } : { model: path }));
  } catch (error) {
    if (isWanted()) onFailure(error);
  } finally {
    if (!signal.aborted) onOpening("");
  }
}

// `href`: of the connection; null if the server takes no files.
export function DropArea({ href, onOpening, onFailure }) {
  const [isOver, setIsOver] = useState(false);
  useEffect(() => {
    if (!href) return undefined;
    const over = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
      setIsOver(true);
    };
    const leave = (event) => {
      if (event.relatedTarget === null) setIsOver(false);
    };
    const drop = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setIsOver(false);
      const entries = [...event.dataTransfer.items].map((item) => item.kind === "file" && item.webkitGetAsEntry());
      open((dropped) => dropped.filesOf(entries.filter(Boolean)), href, onOpening, onFailure);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, [href, onOpening, onFailure]);
  return isOver && html`<div class="drop-area"><p>Drop a model to open it: a file, several, or a folder</p></div>`;
}

// For people who cannot drag: an element to render, and a function that shows the dialog of the browser.
export function useFileDialog(href, onOpening, onFailure) {
  const input = useRef(null);
  const change = useCallback(
    (event) => {
      const list = [...event.target.files];
      event.target.value = "";
      open((dropped) => dropped.chosenFiles(list), href, onOpening, onFailure);
    },
    [href, onOpening, onFailure],
  );
  const element = html`<input ref=${input} type="file" multiple hidden aria-label="Model files" onChange=${change} />`;
  return { element, show: () => input.current.click() };
}
