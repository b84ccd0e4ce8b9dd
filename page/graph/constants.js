// Operators that compute the same whenever the graph runs: they read no input of it, only constants. They are drawn as constants of
// their readers.

// Operators without inputs whose result is another one each time, or comes from outside.
const kSources = /placeholder|random|multinomial|bernoulli|iterator|input|queue|reader|dataset|loop|arg$/i;
const kMostVisits = 4_000_000;

// For each node whether it is such an operator. A graph without inputs has none; nor are results that nothing reads, or that the graph
// returns.
export function foldedNodes({ nodes, values, from, to }, { start, list }) {
  const isFolded = new Uint8Array(nodes.length);
  if (!nodes.some((node) => node.kind === "input") || from.length > kMostVisits) return isFolded;
  const isData = new Uint8Array(nodes.length); // depends on an input
  const waiting = [];
  nodes.forEach((node, index) => {
    const hasOwner = node.inputs.every((input) => input < 0 || values[input].isConstant || values[input].producer >= 0);
    if (node.kind === "input" || !hasOwner || kSources.test(node.op.slice(0, 100))) {
      isData[index] = 1;
      waiting.push(index);
    }
  });
  while (waiting.length > 0) {
    const node = waiting.pop();
    for (let at = start[node]; at < start[node + 1]; ++at) {
      if (isData[list[at]]) continue;
      isData[list[at]] = 1;
      waiting.push(list[at]);
    }
  }
  const isRead = new Uint8Array(nodes.length); // by operators only
  for (let edge = 0; edge < from.length; ++edge) isRead[from[edge]] |= nodes[to[edge]].kind === "output" ? 2 : 1;
  for (let node = 0; node < nodes.length; ++node)
    isFolded[node] = nodes[node].kind === "operator" && !isData[node] && isRead[node] === 1 ? 1 : 0;
  return isFolded;
}
