// The topological order of a graph, without recursion; nodes in a cycle follow in their own order.

// Lists of neighbours: those of node n are list[start[n]] to list[start[n + 1] - 1].
export function neighbours(count, from, to) {
  const start = new Int32Array(count + 1);
  for (const node of from) start[node + 1] += 1;
  for (let node = 0; node < count; ++node) start[node + 1] += start[node];
  const next = start.slice(0, count);
  const list = new Int32Array(from.length);
  for (let edge = 0; edge < from.length; ++edge) list[next[from[edge]]++] = to[edge];
  return { start, list };
}

function isSorted({ from, to }) {
  for (let edge = 0; edge < from.length; ++edge) if (from[edge] >= to[edge]) return false;
  return true;
}

// The nodes in topological order: their own order if that is one.
export function orderOf(graph) {
  const count = graph.nodes.length;
  const order = new Int32Array(count);
  if (isSorted(graph)) return order.map((_, index) => index);
  const { start, list } = neighbours(count, graph.from, graph.to);
  const waiting = new Int32Array(count); // edges from nodes that are not in the order yet
  for (const node of graph.to) waiting[node] += 1;
  const isPlaced = new Uint8Array(count);
  let end = 0;
  const place = (node) => {
    isPlaced[node] = 1;
    order[end++] = node;
  };
  for (let node = 0; node < count; ++node) if (waiting[node] === 0) place(node);
  let next = 0; // the first node that waits for a place, in case of a cycle
  for (let at = 0; at < count; ++at) {
    while (at === end && isPlaced[next]) next += 1;
    if (at === end) place(next);
    const node = order[at];
    for (let edge = start[node]; edge < start[node + 1]; ++edge) {
      const reader = list[edge];
      if ((waiting[reader] -= 1) === 0 && !isPlaced[reader]) place(reader);
    }
  }
  return order;
}
