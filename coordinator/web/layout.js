// Where nodes stand in the picture, by the fabric's shape alone.

const WIDTH = 1200;
const ROW = 190;
const EDGE = 60;

/** Names to places, and how large the picture is. */
export function layout(fabric) {
  const switches = fabric.nodes.filter((node) => node.role === "switch");
  return switches.length ? tiers(fabric) : circle(fabric);
}

/** Servers that are wired to each other stand around a table. */
function circle({ nodes }) {
  const size = Math.max(520, Math.min(900, nodes.length * 26));
  const radius = size / 2 - EDGE;
  const at = new Map(nodes.map(({ name }, index) => {
    const angle = (2 * Math.PI * index) / nodes.length - Math.PI / 2;
    return [name, { x: size / 2 + radius * Math.cos(angle), y: size / 2 + radius * Math.sin(angle) }];
  }));
  return { at, width: size, height: size };
}

/** Hosts below, and each switch as far above them as it is away. */
function tiers(fabric) {
  const tier = distances(fabric);
  const rows = [];
  for (const { name } of fabric.nodes) (rows[tier.get(name)] ??= []).push(name);
  const filled = rows.filter(Boolean);
  const widest = Math.max(...filled.map((row) => row.length));
  const width = Math.max(WIDTH, widest * 22);
  const at = new Map();
  filled.forEach((row, level) => row.forEach((name, index) => at.set(name, {
    x: EDGE + ((index + 0.5) * (width - 2 * EDGE)) / row.length,
    y: EDGE + (filled.length - 1 - level) * ROW,
  })));
  return { at, width, height: 2 * EDGE + (filled.length - 1) * ROW };
}

/** Of each node, how many links away the nearest host is. */
function distances({ nodes, links }) {
  const beside = new Map(nodes.map(({ name }) => [name, []]));
  for (const { a, b } of links) {
    beside.get(a).push(b);
    beside.get(b).push(a);
  }
  const tier = new Map(nodes.filter(({ role }) => role !== "switch").map(({ name }) => [name, 0]));
  const waiting = [...tier.keys()];
  for (const name of waiting) {
    for (const next of beside.get(name)) {
      if (!tier.has(next)) {
        tier.set(next, tier.get(name) + 1);
        waiting.push(next);
      }
    }
  }
  for (const { name } of nodes) if (!tier.has(name)) tier.set(name, 0);
  return tier;
}
