// Markdown as a tree of blocks: the parts of CommonMark and of GitHub's tables that model cards have. HTML stays text. Linear in the
// length of the text: quotes and lists deeper than kMostDepth are text. Larger libraries do all of CommonMark, some in quadratic time.

import { labelOf } from "./inline.js";

const kMostDepth = 12;
const kMostColumns = 40;
const kHeading = /^ {0,3}(#{1,6})(?=\s|$)/;
const kFence = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const kRule = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const kItem = /^( {0,3})([-*+]|\d{1,9}[.)])(?=[ \t]|$)/;
const kQuote = /^ {0,3}> ?/;
const kReference = /^ {0,3}\[([^\][]{1,200})\]:[ \t]*<?([^\s>]+)/;
const kUnderline = /^ {0,3}(=+|-+)[ \t]*$/;

const isBlank = (line) => line.trim() === "";
const indentOf = (line) => line.length - line.trimStart().length;
const isRule = (line) => line.length < 200 && kRule.test(line);
const beginsBlock = (line) => kHeading.test(line) || kFence.test(line) || kQuote.test(line) || isRule(line) || kItem.test(line);

// The cells of a row of a table.
function cellsOf(line) {
  const cells = line
    .trim()
    .replace(/^\|/, "")
    .split(/(?<!\\)\|/);
  if (cells.length > 1 && isBlank(cells.at(-1))) cells.pop();
  return cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

// The columns of a table that begins at line `at`: how each is aligned, or null if none begins there.
function columnsAt(lines, at) {
  const line = lines[at + 1] ?? "";
  if (!lines[at].includes("|") || !/^[\s|:-]+$/.test(line) || !line.includes("-")) return null;
  const cells = cellsOf(line);
  const isTable =
    cells.length <= kMostColumns && cells.length === cellsOf(lines[at]).length && cells.every((cell) => /^:?-+:?$/.test(cell));
  return isTable ? cells.map((cell) => (cell.endsWith(":") && !cell.startsWith(":") ? "right" : "left")) : null;
}

function readTable(lines, at) {
  const columns = columnsAt(lines, at);
  if (!columns) return null;
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|") && !isBlank(lines[end])) end += 1;
  const rows = lines.slice(at + 2, end).map((line) => cellsOf(line).slice(0, columns.length));
  return [{ kind: "table", columns, head: cellsOf(lines[at]), rows }, end];
}

function readHeading(lines, at) {
  const match = kHeading.exec(lines[at]);
  if (!match) return null;
  const words = lines[at].slice(match[0].length).trim().split(" ");
  if (/^#+$/.test(words.at(-1))) words.pop();
  return [{ kind: "heading", level: match[1].length, text: words.join(" ").trim() }, at + 1];
}

function readCode(lines, at) {
  const match = kFence.exec(lines[at]);
  let end = at + 1;
  if (match) {
    const isEnd = (line) => line.trim().length >= match[1].length && line.trim() === match[1][0].repeat(line.trim().length);
    while (end < lines.length && !isEnd(lines[end])) end += 1;
    const indent = indentOf(lines[at]);
    const text = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent, indentOf(line))));
    return [{ kind: "code", language: match[2].trim(), text: text.join("\n") }, end + 1];
  }
  if (indentOf(lines[at]) < 4) return null;
  while (end < lines.length && (indentOf(lines[end]) >= 4 || isBlank(lines[end]))) end += 1;
  return [
    {
      kind: "code",
      language: "",
      text: lines
        .slice(at, end)
        .map((line) => line.slice(4))
        .join("\n")
        .trimEnd(),
    },
    end,
  ];
}

function readQuote(lines, at, context) {
  if (!kQuote.test(lines[at]) || context.depth >= kMostDepth) return null;
  let end = at + 1;
  while (end < lines.length && (kQuote.test(lines[end]) || !(isBlank(lines[end]) || beginsBlock(lines[end])))) end += 1;
  const inside = lines.slice(at, end).map((line) => line.replace(kQuote, ""));
  return [{ kind: "quote", children: blocksOf(inside, { ...context, depth: context.depth + 1 }) }, end];
}

// The lines of the item that begins at `at`, without their indent, and the line after it.
function itemAt(lines, at) {
  const [begin] = kItem.exec(lines[at]);
  const space = indentOf(lines[at].slice(begin.length));
  const indent = begin.length + (space >= 1 && space <= 4 ? space : 1);
  const inside = [lines[at].slice(Math.min(indent, lines[at].length))];
  let end = at + 1;
  let blanks = 0;
  for (; end < lines.length; end += 1) {
    const line = lines[end];
    if (isBlank(line)) blanks += 1;
    else if (indentOf(line) >= indent) blanks = 0;
    else if (blanks > 0 || beginsBlock(line)) break;
    inside.push(line.slice(Math.min(indent, indentOf(line))));
  }
  return { inside: inside.slice(0, inside.length - blanks), end, hasGap: blanks > 0 };
}

function readList(lines, at, context) {
  const first = kItem.exec(lines[at]);
  if (!first || isRule(lines[at]) || context.depth >= kMostDepth) return null;
  const kind = first[2].at(-1);
  const items = [];
  let isLoose = false;
  let end = at;
  while (end < lines.length && kItem.exec(lines[end])?.[2].at(-1) === kind && !isRule(lines[end])) {
    const item = itemAt(lines, end);
    isLoose ||= items.length > 0 && items.at(-1).hasGap;
    items.push({ hasGap: item.hasGap, children: blocksOf(item.inside, { ...context, depth: context.depth + 1 }) });
    end = item.end;
  }
  return [{ kind: "list", start: parseInt(first[2], 10), isLoose, items: items.map(({ children }) => children) }, end];
}

function readReference(lines, at, { references }) {
  const match = kReference.exec(lines[at]);
  if (!match) return null;
  if (!references.has(labelOf(match[1]))) references.set(labelOf(match[1]), match[2]);
  return [null, at + 1];
}

function readParagraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end])) {
    const underline = kUnderline.exec(lines[end]);
    if (underline) {
      const text = lines.slice(at, end).join("\n").trim();
      return [{ kind: "heading", level: underline[1][0] === "=" ? 1 : 2, text }, end + 1];
    }
    if (beginsBlock(lines[end]) || columnsAt(lines, end)) break;
    end += 1;
  }
  const text = lines
    .slice(at, end)
    .map((line) => line.trimStart())
    .join("\n");
  return [{ kind: "paragraph", text: text.trimEnd() }, end];
}

const readRule = (lines, at) => (isRule(lines[at]) ? [{ kind: "rule" }, at + 1] : null);
const kReaders = [readHeading, readCode, readRule, readQuote, readList, readTable, readReference, readParagraph];

function blocksOf(lines, context) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at += 1;
      continue;
    }
    for (const read of kReaders) {
      const found = read(lines, at, context);
      if (!found) continue;
      if (found[0]) blocks.push(found[0]);
      at = found[1];
      break;
    }
  }
  return blocks;
}

// The front matter of a model card as rows: [key, text]. Nested values are shown as they are written, a list of words in one line.
function rowsOf(lines) {
  const rows = [];
  for (const line of lines) {
    const match = /^([\w.-]{1,80}):[ \t]*(.*)$/.exec(line);
    if (match) rows.push([match[1], [match[2].replace(/^(["'])(.*)\1$/, "$2")]]);
    else if (rows.length > 0 && !isBlank(line)) rows.at(-1)[1].push(line);
  }
  const isWord = (line) => /^\s*- [^:]*$/.test(line);
  return rows.map(([key, [first, ...more]]) => {
    const isList = first === "" && more.every(isWord);
    return [key, isList ? more.map((line) => line.trim().slice(2)).join(", ") : [first, ...more].join("\n").trim()];
  });
}

// {front: [[key, text]…], blocks, references}. The texts of blocks are for inlineOf(), with the references.
export function parseMarkdown(text) {
  const lines = text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n");
  const end = lines[0]?.trim() === "---" ? lines.indexOf("---", 1) : -1;
  const references = new Map();
  const blocks = blocksOf(lines.slice(end < 0 ? 0 : end + 1), { depth: 0, references });
  return { front: end < 0 ? [] : rowsOf(lines.slice(1, end)), blocks, references };
}
