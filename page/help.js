// The dialog with the keys of the page and of the present view, and links to the documents, which are a part of the program.

import { html, useEffect, useRef } from "./lib.js";

const kPageKeys = [
  ["?", "show this help"],
  ["Esc", "close it"],
  ["Tab", "next control"],
];

const kDocuments = [
  ["weightfs.1.md", "Manual of all commands"],
  ["examples.md", "Examples"],
  ["summary.md", "What the facts of a model mean"],
  ["numbers.md", "How numbers and pictures are computed"],
  ["serve.md", "Serving models over HTTP"],
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
      <h2 id="help-title">Help</h2>
      <${KeyTable} title=${view.title} keys=${view.keys} />
      <${KeyTable} title="Everywhere" keys=${kPageKeys} />
      <section>
        <h3>Documents</h3>
        <ul class="documents">
          ${kDocuments.map(
            ([file, title]) => html`<li key=${file}>
              <a href=${`/.weightfs/page/docs/${file}`} target="_blank" rel="noopener">${title}</a>
            </li>`,
          )}
        </ul>
      </section>
      <button type="button" class="primary" onClick=${() => dialog.current.close()}>Close</button>
    </div>
  </dialog>`;
}
