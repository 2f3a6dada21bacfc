// Layout of the graph of owners and dependents: a column for each level, owners on the left.

export const BOX = { width: 210, height: 44 };
const GAP = { x: 70, y: 14 };

/**
 * `nodes`: `[{id, level, ...}]`, `edges`: `[{from, to}]` (owner to dependent). Returns the nodes with `x` and `y`, the edges
 * with an SVG `path`, and the total `width` and `height`. Nodes of a level are ordered by their owners.
 */
export function layout(nodes, edges) {
  const levels = new Map();
  for (const node of nodes) {
    if (!levels.has(node.level)) levels.set(node.level, []);
    levels.get(node.level).push(node);
  }
  const order = [...levels.keys()].sort((a, b) => a - b);
  const tallest = Math.max(1, ...[...levels.values()].map((level) => level.length));
  const height = tallest * (BOX.height + GAP.y) - GAP.y;
  const placed = new Map();
  order.forEach((level, column) => {
    const members = levels.get(level);
    const rank = (node) => Math.min(...edges.filter((edge) => edge.to === node.id).map((edge) => placed.get(edge.from)?.y ?? Infinity), Infinity);
    members.sort((a, b) => compare(rank(a), rank(b)) || compare(a.title, b.title));
    const own = members.length * (BOX.height + GAP.y) - GAP.y;
    members.forEach((node, index) => {
      const y = (height - own) / 2 + index * (BOX.height + GAP.y);
      placed.set(node.id, { ...node, x: column * (BOX.width + GAP.x), y });
    });
  });
  const drawn = edges.filter((edge) => placed.has(edge.from) && placed.has(edge.to)).map((edge) => {
    return { ...edge, path: curve(placed.get(edge.from), placed.get(edge.to)) };
  });
  return { nodes: [...placed.values()], edges: drawn, width: order.length * (BOX.width + GAP.x) - GAP.x, height };
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

function curve(from, to) {
  const [x1, y1] = [from.x + BOX.width, from.y + BOX.height / 2];
  const [x2, y2] = [to.x, to.y + BOX.height / 2];
  const middle = (x1 + x2) / 2;
  return `M${x1},${y1} C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
}
