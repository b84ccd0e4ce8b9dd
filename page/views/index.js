// The views of the page: a row for each, with its keys. A view's module is loaded when it is first shown.

const always = () => true;
const ofModel = (model) => model !== null;

export const kViews = [
  {
    id: "model",
    title: "Model",
    load: () => import("./model.js"),
    keys: [["Enter", "open the tensor of the chosen cell"]],
    isShown: always,
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
    isShown: ofModel,
  },
  {
    id: "tensor",
    title: "Tensor",
    load: () => import("./tensor.js"),
    keys: [
      ["[ ]", "previous and next tensor"],
      ["+ −", "zoom in and out"],
      ["0", "show the whole tensor"],
      ["↑ ↓ ← →", "move the window"],
    ],
    isShown: () => false,
  },
  {
    id: "compare",
    title: "Compare",
    load: () => import("./compare.js"),
    keys: [],
    isShown: always,
  },
  {
    id: "graph",
    title: "Graph",
    load: () => import("./graph.js"),
    keys: [
      ["/", "search nodes"],
      ["+ −", "zoom in and out"],
      ["0", "show the whole graph"],
      ["Enter", "open or close the group"],
    ],
    isShown: (model) => model?.has_graph === true,
  },
  {
    id: "files",
    title: "Files",
    load: () => import("./files.js"),
    keys: [
      ["/", "search in the text"],
      ["Enter", "next hit (Shift: previous)"],
    ],
    isShown: ofModel,
  },
];

// The row of a view by its id; the first view for an unknown id.
export const viewOf = (id) => kViews.find((view) => view.id === id) ?? kViews[0];
