// Hosts against hosts as colours: a million cells become columns of numbers once, and a picture is a pass or two
// over one of them.

const NONE = NaN;

/** Cells by their place in the picture, and their figures, column by column; what is not measured is no number. */
export function indexed({ hosts, cells }) {
  const [count, many] = [hosts.length, cells.length];
  const places = new Int32Array(many);
  // From a place to its cell, one more than its index: none is there where this is 0.
  const at = new Int32Array(count * count);
  const [median_us, p99_us, lost_share, rate_bits_per_s] = [0, 1, 2, 3].map(() => new Float64Array(many));
  // Each by its own name, which engines look up several times as fast as one out of a list.
  for (let index = 0; index < many; index += 1) {
    const cell = cells[index];
    places[index] = cell.from * count + cell.to;
    at[places[index]] = index + 1;
    median_us[index] = cell.median_us ?? NONE;
    p99_us[index] = cell.p99_us ?? NONE;
    lost_share[index] = cell.lost_share ?? NONE;
    rate_bits_per_s[index] = cell.rate_bits_per_s ?? NONE;
  }
  return { hosts, cells, places, at, columns: { median_us, p99_us, lost_share, rate_bits_per_s } };
}

export function cellAt({ hosts, cells, at }, from, to) {
  return cells[at[from * hosts.length + to] - 1];
}

/** One pixel for a cell: the browser makes them as large as there is room. The least and the most, where any is. */
export function paint(canvas, { hosts, places, columns }, measure, better) {
  const count = Math.max(1, hosts.length);
  if (canvas.width !== count) canvas.width = canvas.height = count;
  const picture = canvas.getContext("2d", { willReadFrequently: true });
  const [least, most] = extent(columns[measure]);
  const image = new ImageData(count, count);
  if (least <= most) colour(new Uint32Array(image.data.buffer), places, columns[measure], [least, most], better);
  picture.putImageData(image, 0, 0);
  return least <= most ? [least, most] : null;
}

function colour(pixels, places, values, [least, most], better) {
  const step = most > least ? 255 / (most - least) : 0;
  const [base, sign] = better < 0 && most > least ? [most, -step] : [least, step];
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (value === value) pixels[places[index]] = PALETTE[((value - base) * sign + 0.5) | 0];
  }
}

function extent(values) {
  let [least, most] = [Infinity, -Infinity];
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [least, most];
}

/** So many of the worst, in one pass. */
export function worst({ cells, columns }, measure, better, count) {
  const values = columns[measure];
  const found = [];
  let threshold = -Infinity;
  for (let index = 0; index < values.length; index += 1) {
    const badness = better * values[index];
    if (!(badness > threshold)) continue;
    const place = found.findIndex(([other]) => other < badness);
    found.splice(place < 0 ? found.length : place, 0, [badness, index]);
    if (found.length > count) found.pop();
    if (found.length === count) threshold = found[count - 1][0];
  }
  return found.map(([, index]) => cells[index]);
}

/** From 0, good, to 255, bad: from calm blue over yellow to red, told apart without red and green, on either ground. */
const PALETTE = palette([[38, 98, 171], [108, 172, 196], [245, 220, 120], [240, 136, 62], [190, 30, 45]]);

function palette(stops) {
  return Uint32Array.from({ length: 256 }, (_, index) => {
    const place = (index / 255) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(place));
    const [r, g, b] = stops[low].map((from, part) => Math.round(from + (stops[low + 1][part] - from) * (place - low)));
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
}
