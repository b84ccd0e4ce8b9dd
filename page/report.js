// Saves the present view as one HTML file that needs nothing else: no scripts, no controls, no links, pictures as PNG.

import { getJson, getText } from "./api.js";
import { clean } from "./format.js";
import { fileNameOf, save } from "./save.js";

const kPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

// Controls whose choice is shown as text; everything else that a person operates is left out.
const kRemoved =
  "script, link, style, template, iframe, object, embed, dialog, progress, textarea, nav, .loading, .downloads, .readout.muted, .readout-line .muted";
const kRemovedAttributes = [
  "tabindex",
  "href",
  "xlink:href",
  "target",
  "download",
  "aria-activedescendant",
  "aria-roledescription",
];
const kReportStyle = `
  body { padding: 16px; }
  main { display: block !important; height: auto !important; min-height: 0 !important; }
  main > * + * { margin-top: 12px; }
  .scroll { overflow: auto !important; max-height: none !important; }
  .report-head { border-bottom: 1px solid var(--line); margin: 0 0 12px; padding-bottom: 8px; overflow-wrap: anywhere; }
  img { max-width: 100%; }`;

function textElement(text) {
  const element = document.createElement("span");
  element.textContent = text;
  return element;
}

// What a picture says: its own label, or that of what it is in.
function alternativeOf(canvas) {
  return canvas.getAttribute("aria-label") ?? canvas.closest("[role='img']")?.getAttribute("aria-label") ?? "";
}

function imageOf(canvas) {
  const box = canvas.getBoundingClientRect();
  if (canvas.width === 0 || canvas.height === 0 || box.width === 0) return textElement(alternativeOf(canvas));
  const image = document.createElement("img");
  image.src = canvas.toDataURL("image/png");
  image.alt = alternativeOf(canvas);
  image.style.width = `${box.width}px`;
  image.style.height = `${box.height}px`;
  return image;
}

// Replaces each element of `copy` that fits `selector` by what `replace` makes of its original, or removes it.
function replaceAll(original, copy, selector, replace) {
  const originals = [...original.querySelectorAll(selector)];
  const copies = [...copy.querySelectorAll(selector)];
  copies.forEach((element, i) => {
    const replacement = replace(originals[i]);
    if (replacement) element.replaceWith(replacement);
    else element.remove();
  });
}

// What was chosen with a control, as text.
function choiceOf(control) {
  if (control.tagName === "SELECT") return textElement(control.selectedOptions[0]?.textContent ?? "");
  if (control.type === "checkbox" || control.type === "radio") return textElement(control.checked ? "☑" : "☐");
  if (control.tagName === "INPUT") return control.value === "" ? null : textElement(control.value);
  // The button of a heading or of a cell has its text.
  const isText = control.getAttribute("aria-pressed") === "true" || control.closest("th, td, [role='columnheader']");
  return isText ? textElement(control.textContent) : null;
}

// A copy of the main element that does nothing.
function copyOf(main) {
  const copy = main.cloneNode(true);
  replaceAll(main, copy, "canvas", imageOf);
  replaceAll(main, copy, "select, input, button", choiceOf);
  for (const element of copy.querySelectorAll(kRemoved)) element.remove();
  for (const anchor of [...copy.querySelectorAll("a")]) {
    const isHtml = anchor.namespaceURI === copy.namespaceURI;
    const plain = document.createElementNS(anchor.namespaceURI, isHtml ? "span" : "g");
    for (const { name, value } of anchor.attributes) plain.setAttribute(name, value);
    plain.append(...anchor.childNodes);
    anchor.replaceWith(plain);
  }
  for (const element of copy.querySelectorAll("details")) {
    // What was never opened has no content.
    if (element.children.length < 2) element.remove();
    else element.open = true;
  }
  for (const element of [copy, ...copy.querySelectorAll("*")]) {
    for (const name of kRemovedAttributes) element.removeAttribute(name);
    if (element.getAttribute("role") === "img" && element.querySelector("img")) {
      element.removeAttribute("role");
      element.removeAttribute("aria-label");
    }
  }
  return copy;
}

// The text of all style sheets of the page. Their rules as the browser writes them would lose shorthands that contain variables.
async function readStyles() {
  const hrefs = [...document.styleSheets].map((sheet) => sheet.href).filter(Boolean);
  const texts = await Promise.all(hrefs.map((href) => getText(href)));
  return [...texts, kReportStyle].join("\n").replaceAll("</", "<\\/");
}

// Where and when the report was made. The fragment of the URL, which has the token, is not in it.
function headOf({ source, version }, date) {
  const head = document.createElement("p");
  head.className = "report-head";
  const url = location.origin + location.pathname + location.search;
  head.textContent = `${clean(source)} · weightfs ${clean(version)} · ${date.toISOString().slice(0, 16).replace("T", " ")} UTC · ${clean(url)}`;
  return head;
}

function documentOf(main, styles, server, date) {
  const report = document.implementation.createHTMLDocument(clean(document.title));
  const root = report.documentElement;
  root.lang = "en-GB";
  root.dataset.theme = document.documentElement.dataset.theme ?? "light";
  const policy = report.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content = kPolicy;
  report.head.prepend(policy);
  report.body.append(headOf(server, date), copyOf(main));
  const encoding = report.createElement("meta");
  encoding.setAttribute("charset", "utf-8");
  report.head.prepend(encoding);
  // A style element would be refused already here, by the policy of the page. Texts are escaped, so the first end of a head is that of the head.
  const text = root.outerHTML.replace("</head>", () => `<style>${styles}</style></head>`);
  return `<!doctype html>\n${text}\n`;
}

// The name of the file of the present view.
export const reportName = () => `${fileNameOf(document.title)}.html`;

// Downloads the present view; the name of the file. Fails with an ApiError if the server does not respond.
export async function saveReport() {
  const [server, styles] = await Promise.all([getJson("models", {}), readStyles()]);
  const text = documentOf(document.querySelector("main"), styles, server, new Date());
  const name = reportName();
  save(new Blob([text], { type: "text/html" }), name);
  return name;
}
