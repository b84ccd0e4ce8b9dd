// The text of a block of Markdown as a tree: emphasis, code, links. Linear in its length, whatever it has: only what is near the top of
// the stack is looked at, and nothing nests deeper than kMostDepth.

const kMostDepth = 24;
const kMostHref = 2000;
const kMostLabel = 200;
const kPlain = /[^\\`*_~[\]!<&\n]+/y;
const kAutolink = /<(https?:\/\/[^\s<>]{1,2000})>/y;
const kEntity = /&(?:#(\d{1,7})|(amp|lt|gt|quot|nbsp|copy));/y;
const kEntities = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: "\u00a0", copy: "©" };
const kBareLink = /\bhttps?:\/\/[^\s<>"]*[^\s<>".,;:!?)\]'*_~]/g;
const kEscapable = /[!-/:-@[-`{-~]/;
const kPunctuation = /[\p{P}\p{S}]/u;

export const labelOf = (text) => text.trim().toLowerCase().replace(/\s+/g, " ");

// The destination of a link, after its `(`: {href, end}, or null. A title is left out.
function destinationAt(text, at) {
  const match = /^\s*(<[^<>\n]*>|(?:[^\s()\\]|\\.|\([^\s()]*\))*)(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(
    text.slice(at, at + kMostHref),
  );
  return match && { href: match[1].replace(/^<(.*)>$/, "$1").replace(/\\(.)/g, "$1"), end: at + match[0].length };
}

// A run of `*`, `_` or `~`: whether it may begin and end emphasis, by its neighbours.
function runAt(text, at) {
  let end = at + 1;
  while (text[end] === text[at]) end += 1;
  const [before, after] = [text[at - 1] ?? " ", text[end] ?? " "];
  const isEdge = (character) => /\s/.test(character) || kPunctuation.test(character);
  const isLeft = !/\s/.test(after) && (!kPunctuation.test(after) || isEdge(before));
  const isRight = !/\s/.test(before) && (!kPunctuation.test(before) || isEdge(after));
  const isWord = text[at] === "_";
  return {
    mark: text[at],
    size: end - at,
    canOpen: isLeft && (!isWord || isEdge(before)),
    canClose: isRight && (!isWord || isEdge(after)),
  };
}

class Reader {
  constructor(text, references) {
    Object.assign(this, { text, references, at: 0, frames: [{ children: [] }], codes: new Map() });
    for (const { 0: run, index } of text.matchAll(/`+/g)) {
      if (!this.codes.has(run.length)) this.codes.set(run.length, { next: 0, places: [] });
      this.codes.get(run.length).places.push(index);
    }
  }

  say(text) {
    const { children } = this.frames.at(-1);
    if (children.at(-1)?.kind === "text") children.at(-1).text += text;
    else if (text !== "") children.push({ kind: "text", text });
  }

  add(node) {
    this.frames.at(-1).children.push(node);
  }

  // Opens what is only its mark if it is not closed, or too deep.
  open(kind, mark) {
    if (this.frames.length > kMostDepth) this.say(mark);
    else this.frames.push({ kind, mark, begin: this.at, children: [] });
  }

  // The last frame as its mark, and its children as those of the frame around it.
  undo() {
    const { mark, children } = this.frames.pop();
    this.say(mark);
    for (const child of children) {
      if (child.kind === "text") this.say(child.text);
      else this.add(child);
    }
  }

  // Closes the frame at `place` of the stack; what is open in it is undone.
  close(place, fields = {}) {
    while (this.frames.length > place + 1) this.undo();
    const { kind, children } = this.frames.pop();
    this.add({ kind, children, ...fields });
  }

  readRun() {
    const { mark, size, canOpen, canClose } = runAt(this.text, this.at);
    let left = size;
    while (canClose && left > 0) {
      const place = this.frames.findLastIndex((frame) => frame.mark?.[0] === mark && frame.mark.length <= left);
      if (place < 0) break;
      left -= this.frames[place].mark.length;
      this.close(place);
    }
    this.at += size;
    const isDeleted = mark === "~";
    while (canOpen && left > 0 && !(isDeleted && left !== 2) && this.frames.length <= kMostDepth) {
      const step = left >= 2 ? 2 : 1;
      this.open(isDeleted ? "deleted" : step === 2 ? "strong" : "emphasis", mark.repeat(step));
      left -= step;
    }
    this.say(mark.repeat(left));
  }

  // Where the link leads whose text ends at the present `]`, and where it ends; null if it is none.
  targetOf({ begin }) {
    const { text, at } = this;
    if (text[at + 1] === "(") return destinationAt(text, at + 2);
    const full = text[at + 1] === "[" ? /^[^\][]*(?=\])/.exec(text.slice(at + 2, at + 2 + kMostLabel)) : null;
    const label = full?.[0] || (at - begin <= kMostLabel ? text.slice(begin, at) : "");
    const href = this.references.get(labelOf(label));
    return href === undefined ? null : { href, end: full ? at + 3 + full[0].length : at + 1 };
  }

  readBracket() {
    const place = this.frames.findLastIndex(({ kind }) => kind === "link" || kind === "image");
    const target = place < 0 || this.frames[place].isText ? null : this.targetOf(this.frames[place]);
    if (!target) {
      while (place >= 0 && this.frames.length > place) this.undo();
      this.say("]");
      this.at += 1;
      return;
    }
    // No link is in a link: what is open around this one is text.
    const isLink = this.frames[place].kind === "link";
    this.close(place, { href: target.href });
    this.at = target.end;
    for (const frame of this.frames) if (isLink && frame.kind === "link") frame.isText = true;
  }

  readCode() {
    const { text, at } = this;
    let size = 1;
    while (text[at + size] === "`") size += 1;
    const run = this.codes.get(size);
    while (run && run.next < run.places.length && run.places[run.next] < at + size) run.next += 1;
    const end = run?.places[run.next];
    if (end === undefined) this.say("`".repeat(size));
    else
      this.add({
        kind: "code",
        text: text
          .slice(at + size, end)
          .replaceAll("\n", " ")
          .replace(/^ (.*\S.*) $/, "$1"),
      });
    this.at = end === undefined ? at + size : end + size;
  }

  readLineEnd() {
    if (this.text.slice(Math.max(0, this.at - 2), this.at) === "  ") this.add({ kind: "break" });
    else this.say(" ");
    this.at += 1;
  }

  readOther(character) {
    kAutolink.lastIndex = this.at;
    kEntity.lastIndex = this.at;
    const link = character === "<" ? kAutolink.exec(this.text) : null;
    const entity = character === "&" ? kEntity.exec(this.text) : null;
    if (link) this.add({ kind: "link", href: link[1], children: [{ kind: "text", text: link[1] }] });
    else if (entity)
      this.say(entity[2] ? kEntities[entity[2]] : String.fromCodePoint(Math.min(Number(entity[1]) || 0xfffd, 0x10ffff)));
    else this.say(character);
    this.at += (link ?? entity)?.[0].length ?? 1;
  }

  read() {
    const { text } = this;
    while (this.at < text.length) {
      const character = text[this.at];
      kPlain.lastIndex = this.at;
      const plain = kPlain.exec(text);
      const isImage = character === "!" && text[this.at + 1] === "[";
      if (plain) {
        this.say(plain[0]);
        this.at = kPlain.lastIndex;
      } else if (text.startsWith("\\\n", this.at)) {
        this.add({ kind: "break" });
        this.at += 2;
      } else if (character === "\\" && kEscapable.test(text[this.at + 1] ?? "")) {
        this.say(text[this.at + 1]);
        this.at += 2;
      } else if (character === "[" || isImage) {
        this.at += isImage ? 2 : 1;
        this.open(isImage ? "image" : "link", isImage ? "![" : "[");
      } else if (character === "]") this.readBracket();
      else if (character === "`") this.readCode();
      else if (character === "\n") this.readLineEnd();
      else if ("*_~".includes(character)) this.readRun();
      else this.readOther(character);
    }
    while (this.frames.length > 1) this.undo();
    return this.frames[0].children;
  }
}

// A text with the addresses in it as links.
function withLinks(text) {
  const out = [];
  let place = 0;
  for (const { 0: href, index } of text.matchAll(kBareLink)) {
    out.push(
      { kind: "text", text: text.slice(place, index) },
      { kind: "link", href, children: [{ kind: "text", text: href }] },
    );
    place = index + href.length;
  }
  return [...out, { kind: "text", text: text.slice(place) }];
}

const linked = (nodes) =>
  nodes.flatMap((node) => {
    if (node.kind === "text") return withLinks(node.text);
    return node.children && node.kind !== "link" ? { ...node, children: linked(node.children) } : node;
  });

// The nodes of a text: {kind: "text" | "code", text}, {kind: "break"}, or {kind, children} of kind "emphasis", "strong", "deleted",
// "link" or "image" (with href). `references` maps labels to addresses.
export const inlineOf = (text, references) => linked(new Reader(text, references).read());
