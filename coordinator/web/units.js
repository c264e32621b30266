// Figures as people read them.

function scaled(value, units, step) {
  let place = 0;
  while (value >= step && place < units.length - 1) {
    value /= step;
    place += 1;
  }
  return `${value.toPrecision(value >= 100 ? 3 : value >= 10 ? 3 : 2)} ${units[place]}`;
}

export function rate(bits_per_s) {
  if (bits_per_s === null || bits_per_s === undefined) return "–";
  return scaled(bits_per_s, ["bit/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"], 1000);
}

export function micros(us) {
  if (us === null || us === undefined) return "–";
  return scaled(us, ["µs", "ms", "s"], 1000);
}

export function share(part) {
  if (part === null || part === undefined) return "–";
  const percent = part * 100;
  return `${percent === 0 || percent >= 10 ? percent.toFixed(0) : percent.toPrecision(2)} %`;
}

export function age(ms) {
  if (ms === null || ms === undefined) return "never";
  const steps = [[1000, "ms"], [60, "s"], [60, "min"], [24, "h"], [Infinity, "days"]];
  let value = ms;
  for (const [step, unit] of steps) {
    if (value < step) return `${Math.floor(value)} ${unit}`;
    value /= step;
  }
}

/** `2026-11-20 14:00:03` of the viewer's own clock. */
export function clock(ms) {
  const at = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join("-");
  return `${day} ${[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":")}`;
}

/** `tcp 10.0.0.1:5000 → 10.0.1.1:4791` */
export function flow({ protocol, source, destination }) {
  return `${protocol} ${source} → ${destination}`;
}

/** The same with the names of hosts where their addresses are known: `tcp h0:5000 → h4:4791`. */
export function flowsByName({ agents }) {
  const names = new Map(agents.flatMap(({ node, addresses }) => addresses.map((address) => [address, node])));
  const end = (place) => place.replace(/^[^:]+/, (address) => names.get(address) ?? address);
  return ({ protocol, source, destination }) => flow({ protocol, source: end(source), destination: end(destination) });
}
