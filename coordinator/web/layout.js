// Where nodes stand in the picture, by the fabric's shape alone.

const WIDTH = 1200;
const ROW = 190;
const EDGE = 60;
/** Beyond this many in a row they stand in blocks below their switches. */
const CROWD = 100;
const CLOSE = 12;

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
  const isCrowd = filled[0].length > CROWD;
  const widest = Math.max(...filled.slice(isCrowd ? 1 : 0).map((row) => row.length), 1);
  const width = Math.max(isCrowd ? 1.4 * WIDTH : WIDTH, widest * (isCrowd ? 44 : 22));
  const at = new Map();
  filled.forEach((row, level) => row.forEach((name, index) => at.set(name, {
    x: EDGE + ((index + 0.5) * (width - 2 * EDGE)) / row.length,
    y: EDGE + (filled.length - 1 - level) * ROW,
  })));
  const height = 2 * EDGE + (filled.length - 1) * ROW;
  return { at, width, height: height + (isCrowd ? blocks(fabric, filled, at, width) : 0) };
}

/** Hosts in blocks below the switch that they hang on; how much higher the picture gets. */
function blocks({ links }, [hosts, switches], at, width) {
  const of = new Map(links.flatMap(({ a, b }) => [[a, b], [b, a]]));
  const below = new Map(switches.map((name) => [name, []]));
  for (const host of hosts) below.get(of.get(host))?.push(host);
  const across = Math.max(1, Math.floor(((width - 2 * EDGE) / switches.length - CLOSE) / CLOSE));
  for (const [name, block] of below) {
    const columns = Math.min(across, block.length);
    block.forEach((host, index) => {
      const place = at.get(host);
      place.x = at.get(name).x + ((index % columns) - (columns - 1) / 2) * CLOSE;
      place.y += Math.floor(index / columns) * CLOSE;
    });
  }
  return CLOSE * Math.ceil(Math.max(0, ...[...below.values()].map((block) => block.length)) / across);
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
