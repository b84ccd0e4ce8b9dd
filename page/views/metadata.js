// The metadata of a model: its keys, the tokens of its vocabulary, and its texts, such as the chat template.

import { html } from "../lib.js";
import { EntryList } from "../parts/entries.js";
import { Texts } from "../parts/texts.js";
import { TokenTable } from "../parts/tokens.js";
import { link } from "../state.js";

const kParts = [
  { id: "keys", title: "Keys and values", component: EntryList },
  { id: "tokens", title: "Tokens", component: TokenTable },
  { id: "texts", title: "Chat template and texts", component: Texts },
];

export default function MetadataView({ location, model }) {
  const present = kParts.find((part) => part.id === location.part) ?? kParts[0];
  return html`
    <h1 class="hidden-text">Metadata</h1>
    <nav class="sub-views" aria-label="Parts of the metadata">
      ${kParts.map(
        (part) => html`<a
          key=${part.id}
          href=${link({ view: "metadata", part: part.id === "keys" ? null : part.id })}
          aria-current=${part === present ? "page" : undefined}
          >${part.title}</a
        >`,
      )}
    </nav>
    <${present.component} key=${present.id} location=${location} model=${model} />
  `;
}
