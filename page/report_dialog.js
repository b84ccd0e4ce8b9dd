// The dialog that says what a report is, and saves it.

import { html, useEffect, useRef, useState } from "./lib.js";
import { isAborted } from "./api.js";
import { reportName, saveReport } from "./report.js";

// `onSaved(name)` is called with the name of the file; `onFailure(error)` if there is none.
export function ReportDialog({ onClose, onSaved, onFailure }) {
  const dialog = useRef(null);
  const [isBusy, setIsBusy] = useState(false);
  useEffect(() => dialog.current.showModal(), []);
  const save = async () => {
    setIsBusy(true);
    try {
      onSaved(await saveReport());
    } catch (error) {
      if (!isAborted(error)) onFailure(error);
    }
    dialog.current?.close();
  };
  // A click on the dialog itself, not on what is in it, is a click beside it.
  const closeOutside = (event) => {
    if (event.target === dialog.current) dialog.current.close();
  };
  return html`<dialog ref=${dialog} aria-labelledby="report-title" onClose=${onClose} onClick=${closeOutside}>
    <div class="help-body">
      <h2 id="report-title">Save a report</h2>
      <p>
        What this view shows as one HTML file: texts, tables and pictures, without scripts. Any browser opens it, without weightfs and
        without a network.
      </p>
      <p>File: <code class="name">${reportName()}</code></p>
      <div class="toolbar">
        <button type="button" class="primary" disabled=${isBusy} onClick=${save}>Save</button>
        <button type="button" onClick=${() => dialog.current.close()}>Cancel</button>
      </div>
    </div>
  </dialog>`;
}
