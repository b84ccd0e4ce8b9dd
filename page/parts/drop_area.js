// Files that are dropped anywhere on the page, and the button that opens the dialog for them.

import { html, useCallback, useEffect, useRef, useState } from "../lib.js";
import { getJson } from "../api.js";
import { follow, link } from "../state.js";

const hasFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");

// Shows what the files are: a model, or a directory of them. `choose` makes their list, from what belongs to an event.
async function open(choose, href) {
  const dropped = await import("../dropped.js");
  const files = await choose(dropped);
  if (files.length === 0) return;
  const path = await dropped.offerFiles(files, href);
  const { kind } = await getJson("entry", { path });
  follow(link(kind === "directory" ? { model: null, dir: path } : { model: path }));
}

// `href`: of the connection; null if the server takes no files.
export function DropArea({ href, onFailure }) {
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
      onFailure(null);
      open((dropped) => dropped.filesOf(entries.filter(Boolean)), href).catch(onFailure);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, [href, onFailure]);
  return isOver && html`<div class="drop-area"><p>Drop a model to open it: a file, several, or a folder</p></div>`;
}

// For people who cannot drag: an element to render, and a function that shows the dialog of the browser.
export function useFileDialog(href, onFailure) {
  const input = useRef(null);
  const change = useCallback(
    (event) => {
      const list = [...event.target.files];
      event.target.value = "";
      onFailure(null);
      open((dropped) => dropped.chosenFiles(list), href).catch(onFailure);
    },
    [href, onFailure],
  );
  const element = html`<input ref=${input} type="file" multiple hidden aria-label="Model files" onChange=${change} />`;
  return { element, show: () => input.current.click() };
}
