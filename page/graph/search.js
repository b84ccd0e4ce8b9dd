// Finds nodes of a graph by words in their operator or name.

const kMostFound = 100;
const kMostCharacters = 1000; // of a name that is sent to the page

// {total, found: [{node, group, op, name}]}: the nodes whose operator and name together have all words; case is ignored.
export function findNodes({ graph, tree }, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  let total = 0;
  if (words.length === 0) return { total, found };
  graph.nodes.forEach(({ op, name }, node) => {
    const place = `${op} ${name}`.toLowerCase();
    if (!words.every((word) => place.includes(word))) return;
    total += 1;
    if (found.length < kMostFound) found.push({ node, group: tree.groupOf[node], op, name: name.slice(0, kMostCharacters) });
  });
  return { total, found };
}
