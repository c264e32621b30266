// Hosts against hosts as colours: a million cells become columns of numbers, each once it is looked at, and a
// picture is a pass or two over one of them.

/** Cells by their places. */
export function indexed({ hosts, cells }) {
  const [count, many] = [hosts.length, cells.length];
  const [rows, places] = [new Uint16Array(many), new Uint16Array(many)];
  // From a place to its cell, one more than its index: none is there where this is 0.
  const at = new Int32Array(count * count);
  for (let index = 0; index < many; index += 1) {
    const { from, to } = cells[index];
    rows[index] = from;
    places[index] = to;
    at[from * count + to] = index + 1;
  }
  return { hosts, cells, rows, places, at, columns: new Map() };
}

/** The figures of one measure, and the least and the most of them; what is not measured is no number. */
function columnOf({ cells, columns }, measure) {
  const held = columns.get(measure);
  if (held) return held;
  const values = READ[measure](cells, new Float64Array(cells.length));
  const column = { values, range: extent(values) };
  columns.set(measure, column);
  return column;
}

/** Each by its own name, which engines look up several times as fast as one out of a list. */
const READ = {
  median_us: (cells, into) => { for (let index = 0; index < into.length; index += 1) into[index] = cells[index].median_us ?? NaN; return into; },
  p99_us: (cells, into) => { for (let index = 0; index < into.length; index += 1) into[index] = cells[index].p99_us ?? NaN; return into; },
  lost_share: (cells, into) => { for (let index = 0; index < into.length; index += 1) into[index] = cells[index].lost_share ?? NaN; return into; },
  rate_bits_per_s: (cells, into) => { for (let index = 0; index < into.length; index += 1) into[index] = cells[index].rate_bits_per_s ?? NaN; return into; },
};

export function cellAt({ hosts, cells, at }, from, to) {
  return cells[at[from * hosts.length + to] - 1];
}

/** All hosts, or this many from the first row and column on: what of the whole is seen. */
export const wholeOf = ({ hosts }) => ({ row: 0, column: 0, span: Math.max(1, hosts.length) });

/** A pixel for a cell, which the browser makes as large as there is room; where there are fewer pixels than cells,
 * each has the worst of those that fall on it, so that nothing bad falls between two. The least and the most of all
 * that was measured, where anything was. */
export function paint(canvas, shown, measure, better, { row, column, span }, room) {
  const side = room >= 1 ? Math.min(span, Math.floor(room)) : span;
  if (canvas.width !== side) canvas.width = canvas.height = side;
  const picture = canvas.getContext("2d", { willReadFrequently: true });
  const { values, range: [least, most] } = columnOf(shown, measure);
  const image = new ImageData(side, side);
  if (least <= most) {
    const pixel = (first) => Int32Array.from(shown.hosts, (_, host) => (host < first || host >= first + span ? -1 : Math.floor(((host - first) * side) / span)));
    const held = gathered(shown, values, [least, most], better, [pixel(row), pixel(column)], side);
    const pixels = new Uint32Array(image.data.buffer);
    for (let at = 0; at < held.length; at += 1) if (held[at]) pixels[at] = PALETTE[held[at] - 1];
  }
  picture.putImageData(image, 0, 0);
  return least <= most ? [least, most] : null;
}

/** The worst on each pixel: one more than its place in the palette, and nothing where nothing was measured. */
function gathered({ rows, places }, values, [least, most], better, [down, across], side) {
  const held = new Uint16Array(side * side);
  // Where there is nothing to tell apart all is as good as it gets.
  const step = most > least ? (better * 255) / (most - least) : 0;
  const base = better < 0 ? most : least;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    const y = down[rows[index]];
    const x = across[places[index]];
    if (value !== value || y < 0 || x < 0) continue;
    const at = y * side + x;
    const level = ((value - base) * step + 1.5) | 0;
    if (level > held[at]) held[at] = level;
  }
  return held;
}

/** Of the cells on one pixel the worst, as [from, to]; the first of them where none was measured. */
export function worstOn(shown, measure, better, { row, column, span }, side, [y, x]) {
  const hosts = (first, place) => [first + Math.ceil((place * span) / side), first + Math.ceil(((place + 1) * span) / side)];
  const [[top, bottom], [left, right]] = [hosts(row, y), hosts(column, x)];
  let [spot, worst] = [[top, left], -Infinity];
  for (let from = top; from < bottom; from += 1) {
    for (let to = left; to < right; to += 1) {
      const badness = better * (cellAt(shown, from, to)?.[measure] ?? NaN);
      if (badness > worst) [spot, worst] = [[from, to], badness];
    }
  }
  return spot;
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

/** This many of the worst, in one pass. */
export function worst(shown, measure, better, count) {
  const { values } = columnOf(shown, measure);
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
  return found.map(([, index]) => shown.cells[index]);
}

/** From 0, good, to 255, bad: from calm blue over yellow to red, distinguished without red and green, on either ground. */
const PALETTE = palette([[38, 98, 171], [108, 172, 196], [245, 220, 120], [240, 136, 62], [190, 30, 45]]);

function palette(stops) {
  return Uint32Array.from({ length: 256 }, (_, index) => {
    const place = (index / 255) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(place));
    const [r, g, b] = stops[low].map((from, part) => Math.round(from + (stops[low + 1][part] - from) * (place - low)));
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
}
