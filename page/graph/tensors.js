// Finds the tensor of a model that has exactly a name.

import { getJson } from "../api.js";

const kMostWord = 100; // characters of a search
const kPage = 1000;
const kMostPages = 5;

// The longest word of a name: the server searches for words.
function wordOf(name) {
  const words = name.split(/\s+/).map((word) => word.slice(0, kMostWord));
  // A character that is cut in half is not searched for.
  return words.reduce((longest, word) => (word.length > longest.length ? word : longest), "").replace(/\p{Surrogate}$/u, "");
}

// The index of the tensor, or null if there is none among the first that have its longest word.
export async function findTensor(model, name, signal) {
  const q = wordOf(name);
  for (let page = 0; page < kMostPages; ++page) {
    const { total, tensors } = await getJson(
      "tensors",
      { model: model.path, v: model.v, q, offset: page * kPage, limit: kPage },
      signal,
    );
    const found = tensors.find((tensor) => tensor.name === name);
    if (found) return found.index;
    if ((page + 1) * kPage >= total) return null;
  }
  return null;
}
