// A Markdown text as elements: nothing of it is HTML, a script or a picture. Links to other hosts open in a tab that does not know this
// one; others lead to files of the model and to headings, or are text.

import { html, useMemo, useRef, useState } from "../lib.js";
import { clean, cleanLines, formatCount } from "../format.js";
import { link } from "../state.js";
import { parseMarkdown } from "./blocks.js";
import { inlineOf } from "./inline.js";

// Blocks that are drawn at a time, items of a list and rows of a table, and characters of a text whose marks are looked at.
const kMostBlocks = 300;
const kMostItems = 500;
const kMostMarked = 20_000;

const kTags = { emphasis: "em", strong: "strong", deleted: "del" };

// The name of a heading in the links to it, as GitHub makes it.
const slugOf = (text) =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");

// The path of a file of the model that a link leads to, or undefined.
function fileOf(href, paths) {
  const path = href.replace(/^\.\//, "").replace(/[?#].*$/s, "");
  try {
    return paths.get(decodeURIComponent(path));
  } catch {
    return paths.get(path);
  }
}

function Link({ href, context, children }) {
  if (/^(https?:\/\/|mailto:)/i.test(href)) {
    return html`<a href=${href} target="_blank" rel="noopener noreferrer" title=${clean(href)}>${children}</a>`;
  }
  if (href.startsWith("#")) {
    const jump = (event) => {
      event.preventDefault();
      const slug = href.slice(1).toLowerCase();
      const all = [...context.body.current.querySelectorAll("[data-slug]")];
      const target = all.find((each) => each.dataset.slug === slug);
      target?.scrollIntoView();
      target?.focus({ preventScroll: true });
    };
    return html`<a href="#" onClick=${jump}>${children}</a>`;
  }
  const path = fileOf(href, context.paths);
  return path === undefined
    ? html`<span title=${clean(href)}>${children}</span>`
    : html`<a href=${link({ view: "files", file: path })}>${children}</a>`;
}

const textOf = (nodes) => nodes.map((node) => node.text ?? (node.children ? textOf(node.children) : " ")).join("");

function Inline({ nodes, context }) {
  return nodes.map((node) => {
    if (node.kind === "text") return clean(node.text);
    if (node.kind === "code") return html`<code>${clean(node.text)}</code>`;
    if (node.kind === "break") return html`<br />`;
    if (node.kind === "image") return html`<span class="picture">${clean(textOf(node.children)) || "picture"}</span>`;
    const children = html`<${Inline} nodes=${node.children} context=${context} />`;
    if (node.kind === "link") return html`<${Link} href=${node.href} context=${context}>${children}<//>`;
    return html`<${kTags[node.kind]}>${children}<//>`;
  });
}

function Marked({ text, context }) {
  const nodes = useMemo(
    () => (text.length > kMostMarked ? [{ kind: "text", text }] : inlineOf(text, context.references)),
    [text],
  );
  return html`<${Inline} nodes=${nodes} context=${context} />`;
}

function Rest({ count, what }) {
  return count > 0 && html`<p class="muted">and ${formatCount(count)} more ${what}, which are in the text</p>`;
}

function MarkdownTable({ block, context }) {
  const cells = (row, tag) =>
    row.map(
      (cell, i) =>
        html`<${tag} key=${i} class=${block.columns[i] === "right" ? "number" : ""}><${Marked} text=${cell} context=${context} /><//>`,
    );
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table">
    <table>
      <thead>
        <tr>
          ${cells(block.head, "th")}
        </tr>
      </thead>
      <tbody>
        ${block.rows.slice(0, kMostItems).map((row, i) => html`<tr key=${i}>${cells(row, "td")}</tr>`)}
      </tbody>
    </table>
    <${Rest} count=${block.rows.length - kMostItems} what="rows" />
  </div>`;
}

function List({ block, context }) {
  const isTight = (children) => !block.isLoose && children[0]?.kind === "paragraph";
  const items = block.items.slice(0, kMostItems).map(
    (children, i) => html`<li key=${i}>
      ${isTight(children) && html`<${Marked} text=${children[0].text} context=${context} />`}
      <${Blocks} blocks=${isTight(children) ? children.slice(1) : children} context=${context} />
    </li>`,
  );
  const list = Number.isNaN(block.start) ? html`<ul>${items}</ul>` : html`<ol start=${block.start}>${items}</ol>`;
  return html`${list}<${Rest} count=${block.items.length - kMostItems} what="items" />`;
}

function Block({ block, context }) {
  if (block.kind === "heading") {
    const tag = `h${context.levels.get(block) ?? 6}`;
    return html`<${tag} data-slug=${slugOf(textOf(inlineOf(block.text.slice(0, kMostMarked), context.references)))} tabindex="-1"
      ><${Marked} text=${block.text} context=${context}
    /><//>`;
  }
  if (block.kind === "code")
    return html`<pre tabindex="0" role="group" aria-label="Code"><code>${cleanLines(block.text)}</code></pre>`;
  if (block.kind === "rule") return html`<hr />`;
  if (block.kind === "quote") return html`<blockquote><${Blocks} blocks=${block.children} context=${context} /></blockquote>`;
  if (block.kind === "list") return html`<${List} block=${block} context=${context} />`;
  if (block.kind === "table") return html`<${MarkdownTable} block=${block} context=${context} />`;
  return html`<p><${Marked} text=${block.text} context=${context} /></p>`;
}

function Blocks({ blocks, context }) {
  return blocks.map((block, i) => html`<${Block} key=${i} block=${block} context=${context} />`);
}

// The levels of headings below that of the file's name: none is skipped, as an outline wants it.
function levelsOf(blocks) {
  const levels = new Map();
  let last = 2;
  for (const block of blocks) {
    if (block.kind !== "heading") continue;
    last = Math.min(block.level + 2, last + 1, 6);
    levels.set(block, last);
  }
  return levels;
}

function FrontMatter({ rows }) {
  if (rows.length === 0) return null;
  return html`<dl class="front">
    ${rows.map(
      ([key, value], i) => html`<div key=${i}>
        <dt>${clean(key)}</dt>
        <dd>${cleanLines(value)}</dd>
      </div>`,
    )}
  </dl>`;
}

// `paths` maps the names of the model's files to their paths, for links between them.
export default function Markdown({ text, paths }) {
  const body = useRef(null);
  const [most, setMost] = useState(kMostBlocks);
  const { front, blocks, references } = useMemo(() => parseMarkdown(text), [text]);
  const levels = useMemo(() => levelsOf(blocks), [blocks]);
  const context = { references, paths, body, levels };
  return html`<div ref=${body} class="markdown" tabindex="0" role="region" aria-label="Formatted text">
    <${FrontMatter} rows=${front.slice(0, kMostItems)} />
    <${Blocks} blocks=${blocks.slice(0, most)} context=${context} />
    ${
      blocks.length > most &&
      html`<button type="button" onClick=${() => setMost(most + kMostBlocks)}>Show more (${formatCount(blocks.length - most)} blocks are left)</button>`
    }
  </div>`;
}
