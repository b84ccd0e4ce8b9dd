// The views of the page: a row for each, with its keys. A view's module is loaded when it is first shown.

// `needsModel`: a directory of models has no such view. `isShown(model)`: whether the navigation lists it; `parent` is the view that the
// navigation marks instead.
export const kViews = [
  {
    id: "models",
    title: "Models",
    load: () => import("./models.js"),
    keys: [
      ["/", "filter the models"],
      ["Esc", "clear the filter"],
    ],
    needsModel: false,
    isShown: (model) => model === null,
  },
  {
    id: "model",
    title: "Model",
    load: () => import("./model.js"),
    keys: [
      ["↑ ↓ ← →", "move among the cells, or the bars"],
      ["Enter", "open the tensor, or the list of tensors"],
    ],
    needsModel: true,
    isShown: (model) => model !== null,
  },
  {
    id: "tensors",
    title: "Tensors",
    load: () => import("./tensors.js"),
    keys: [
      ["/", "search names"],
      ["↑ ↓", "move in the tree or the table"],
      ["← →", "fold and unfold in the tree"],
      ["Enter", "open the tensor, or show only this part"],
      ["Esc", "clear the search"],
    ],
    needsModel: true,
    isShown: (model) => model !== null,
  },
  {
    id: "tensor",
    title: "Tensor",
    parent: "tensors",
    load: () => import("./tensor.js"),
    keys: [
      ["[ ]", "previous and next tensor"],
      ["+ −", "zoom in and out"],
      ["0", "show the whole tensor"],
      ["↑ ↓ ← →", "move in the heat map (Shift: by one cell)"],
    ],
    needsModel: true,
    isShown: () => false,
  },
  {
    id: "metadata",
    title: "Metadata",
    load: () => import("./metadata.js"),
    keys: [
      ["/", "search keys and values, or tokens"],
      ["↑ ↓", "move in the table of tokens"],
      ["Esc", "clear the search"],
    ],
    needsModel: true,
    isShown: (model) => model !== null,
  },
  {
    id: "compare",
    title: "Compare",
    load: () => import("./compare.js"),
    keys: [],
    needsModel: false,
    isShown: () => true,
  },
  {
    id: "graph",
    title: "Graph",
    load: () => import("./graph.js"),
    keys: [
      ["/", "search nodes"],
      ["+ −", "zoom in and out"],
      ["0", "show the whole graph"],
      ["↑ ↓ ← →", "move the drawing, or to the next box"],
      ["Enter", "open the group or show the node"],
      ["Esc", "close the node, or go up a group"],
    ],
    needsModel: true,
    isShown: (model) => model?.has_graph === true,
  },
  {
    id: "files",
    title: "Files",
    load: () => import("./files.js"),
    keys: [
      ["/", "search in the text"],
      ["Enter", "next hit (Shift: previous)"],
      ["Esc", "clear the search"],
    ],
    needsModel: true,
    isShown: (model) => model !== null,
  },
];

// The row of a view by its id; for an unknown id, and for one that a model or a directory does not have, the first view that it has.
export function viewOf(id, model) {
  const has = (row) => (row.needsModel ? model !== null : row.isShown(model));
  return kViews.find((row) => row.id === id && has(row)) ?? kViews.find(has);
}
