// Where the code of a template is: statements, expressions and comments of Jinja, and the actions of Go.

const kEnds = { "{%": "%}", "{{": "}}", "{#": "#}" };

// [{start, end}], in order. Code without an end goes on to the end of the text, so that each character is looked at once.
export function codeIn(text) {
  const found = [];
  for (let start = text.indexOf("{"); start >= 0; ) {
    const close = kEnds[text.slice(start, start + 2)];
    if (close === undefined) {
      start = text.indexOf("{", start + 1);
      continue;
    }
    const last = text.indexOf(close, start + 2);
    const end = last < 0 ? text.length : last + 2;
    found.push({ start, end });
    start = text.indexOf("{", end);
  }
  return found;
}
