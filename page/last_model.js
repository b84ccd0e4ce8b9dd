// The model that was opened last: what a comparison begins with. It is forgotten with the page.

let last = null;

export const lastModel = () => last;

export function rememberModel(path) {
  last = path;
}
