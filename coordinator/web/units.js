// Figures as people read them.

/** Three digits, and beyond the last unit as many as it takes: `1.08e+3` is not read. */
function scaled(value, units, step) {
  let place = 0;
  // What would be rounded up to a thousand is one of the next.
  while (value >= 0.9995 * step && place < units.length - 1) {
    value /= step;
    place += 1;
  }
  return `${digits(value)} ${units[place]}`;
}

function digits(value) {
  if (value >= 999.5) return Math.round(value).toLocaleString("en").replaceAll(",", " ");
  if (value < 0.1) return value ? value.toFixed(2) : "0";
  return value.toPrecision(value >= 10 ? 3 : 2);
}

export function rate(bits_per_s) {
  if (bits_per_s === null || bits_per_s === undefined) return "–";
  return scaled(bits_per_s, ["bit/s", "kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s"], 1000);
}

export function bytes(count) {
  return count < 1000 ? `${count} B` : scaled(count, ["B", "kB", "MB", "GB"], 1000);
}

/** Beyond some minutes as ages are written. */
export function micros(us) {
  if (us === null || us === undefined) return "–";
  return us >= 120e6 ? age(us / 1000) : scaled(us, ["µs", "ms", "s"], 1000);
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

/** `tcp 10.0.0.1:5000 > 10.0.1.1:4791` */
export function flow({ protocol, source, destination }) {
  return `${protocol} ${source} > ${destination}`;
}

/** The host of `10.0.0.1:5000`, or the address where it is unknown. */
export function hostsByAddress({ agents }) {
  const names = new Map(agents.flatMap(({ node, addresses }) => addresses.map((address) => [address, node])));
  return (place) => names.get(place.replace(/:\d+$/, "")) ?? place.replace(/:\d+$/, "");
}

/** The same with the names of hosts where their addresses are known: `tcp h0:5000 > h4:4791`. */
export function flowsByName(status) {
  const host = hostsByAddress(status);
  const end = (place) => place.replace(/^.*(?=:\d+$)/, () => host(place));
  return ({ protocol, source, destination }) => flow({ protocol, source: end(source), destination: end(destination) });
}

/** `h0 > leaf0 > spine1 > leaf1 > h4`, and the cable where several join two, as `reweave paths` tells it. */
export function nodesOf(path) {
  const cable = ({ from, to, link }) => ([`${from}-${to}`, `${to}-${from}`].includes(link) ? "" : link.replace(/^.*(?=\.\d+$)/, " ").replace(/^[^ ].*$/, ""));
  return path.length ? [path[0].from, ...path.map((hop) => hop.to + cable(hop))].join(" > ") : "";
}
