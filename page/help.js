// The dialog with the keys of the page and of the present view.

import { html, useEffect, useRef } from "./lib.js";

const kPageKeys = [
  ["?", "show this list"],
  ["Esc", "close it"],
  ["Tab", "next control"],
];

function KeyTable({ title, keys }) {
  if (keys.length === 0) return null;
  return html`<table>
    <caption>
      ${title}
    </caption>
    <tbody>
      ${keys.map(
        ([key, action]) => html`<tr key=${key}>
          <th scope="row"><kbd>${key}</kbd></th>
          <td>${action}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

export function HelpDialog({ view, isOpen, onClose }) {
  const dialog = useRef(null);
  useEffect(() => {
    if (isOpen && !dialog.current.open) dialog.current.showModal();
  }, [isOpen]);
  // A click on the dialog itself, not on what is in it, is a click beside it.
  const closeOutside = (event) => {
    if (event.target === dialog.current) dialog.current.close();
  };
  return html`<dialog ref=${dialog} class="help" aria-labelledby="help-title" onClose=${onClose} onClick=${closeOutside}>
    <div class="help-body">
      <h2 id="help-title">Keys</h2>
      <${KeyTable} title=${view.title} keys=${view.keys} />
      <${KeyTable} title="Everywhere" keys=${kPageKeys} />
      <button type="button" class="primary" onClick=${() => dialog.current.close()}>Close</button>
    </div>
  </dialog>`;
}
