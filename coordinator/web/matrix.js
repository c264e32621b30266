// Hosts against hosts as a heat map; a host's row or column, chosen, is told in figures.

import { Problem, get } from "./api.js";
import { h, nothing, panel, table } from "./dom.js";
import { micros, rate, share } from "./units.js";

const EVERY_MS = 2000;
const MEASURES = {
  median_us: ["Latency, median", micros, 1],
  p99_us: ["Latency, one in a hundred", micros, 1],
  lost_share: ["Loss", share, 1],
  rate_bits_per_s: ["Bandwidth", rate, -1],
};

export function matrix(known) {
  const canvas = h("canvas", { class: "heat", tabindex: "0", role: "img", "aria-label": "Heat map of hosts against hosts" });
  const said = h("p", { class: "said", "aria-live": "polite" });
  const scale = h("p", { class: "scale bar" });
  const detail = h("div", {});
  const choice = h("select", { "aria-label": "What to show", onchange: draw },
    Object.entries(MEASURES).map(([key, [words]]) => h("option", { value: key }, words)));
  let shown = null;
  let spot = null;
  let timer = 0;
  let asking = false;

  async function load() {
    if (asking) return;
    asking = true;
    try {
      shown = indexed(await get("/matrix"));
      draw();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      said.textContent = problem.message;
    } finally {
      asking = false;
    }
  }

  function draw() {
    if (!shown) return;
    const [words, told, better] = MEASURES[choice.value];
    const range = paint(canvas, shown, choice.value, better);
    const ends = better > 0 ? range : range?.toReversed();
    scale.replaceChildren(...(ends ? [told(ends[0]), h("span", { class: "gradient" }), told(ends[1])] : [`${words}: nothing measured`]));
    canvas.dataset.painted = range ? "yes" : "no";
    tell();
  }

  function tell() {
    if (!shown) return;
    if (!spot) {
      said.textContent = "Point at a cell, or choose one with the arrow keys.";
      return detail.replaceChildren(worst(shown, choice.value));
    }
    const [from, to] = spot;
    const { hosts } = shown;
    const cell = shown.at.get(from * hosts.length + to);
    said.textContent = `${hosts[from]} → ${hosts[to]}: ${cell ? inWords(cell) : "not measured"}`;
    detail.replaceChildren(row(shown, from));
  }

  function point(event) {
    if (!shown) return;
    const box = canvas.getBoundingClientRect();
    const count = shown.hosts.length;
    const place = (at, size) => Math.min(count - 1, Math.max(0, Math.floor((at / size) * count)));
    spot = [place(event.clientY - box.top, box.height), place(event.clientX - box.left, box.width)];
    tell();
  }

  function move(event) {
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!by || !shown) return;
    event.preventDefault();
    const last = shown.hosts.length - 1;
    spot = (spot ?? [0, 0]).map((at, axis) => Math.min(last, Math.max(0, at + by[axis])));
    tell();
  }

  canvas.addEventListener("mousemove", point);
  canvas.addEventListener("mouseleave", () => { spot = null; tell(); });
  canvas.addEventListener("keydown", move);
  load();
  timer = setInterval(load, EVERY_MS);
  return {
    element: h("div", { class: "columns" },
      panel("Between hosts", h("div", { class: "bar" }, choice, scale), canvas, said), panel("In figures", detail)),
    heard: draw,
    leave: () => clearInterval(timer),
  };
}

function indexed({ hosts, cells }) {
  return { hosts, cells, at: new Map(cells.map((cell) => [cell.from * hosts.length + cell.to, cell])) };
}

/** One pixel for a cell: the browser makes them as large as there is room. */
function paint(canvas, { hosts, cells }, measure, better) {
  const count = Math.max(1, hosts.length);
  canvas.width = count;
  canvas.height = count;
  const values = cells.map((cell) => cell[measure]).filter((value) => value !== null && value !== undefined);
  if (!values.length) return null;
  const range = extent(values);
  const image = new ImageData(count, count);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = palette();
  for (const cell of cells) {
    const value = cell[measure];
    if (value !== null && value !== undefined) pixels[cell.from * count + cell.to] = colours[shade(value, range, better)];
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return range;
}

function extent(values) {
  let [least, most] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return [least, most];
}

/** From 0, good, to 255, bad. */
function shade(value, [least, most], better) {
  const place = most > least ? (value - least) / (most - least) : 0;
  return Math.round(255 * (better > 0 ? place : most > least ? 1 - place : 0));
}

/** From calm blue over yellow to red: told apart without red and green, and on either ground. */
function palette() {
  const stops = [[38, 98, 171], [108, 172, 196], [245, 220, 120], [240, 136, 62], [190, 30, 45]];
  return Array.from({ length: 256 }, (_, index) => {
    const place = (index / 255) * (stops.length - 1);
    const low = Math.min(stops.length - 2, Math.floor(place));
    const [r, g, b] = stops[low].map((from, part) => Math.round(from + (stops[low + 1][part] - from) * (place - low)));
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
}

function inWords(cell) {
  return `${micros(cell.median_us)} (one in a hundred ${micros(cell.p99_us)}), loss ${share(cell.lost_share)}, ${rate(cell.rate_bits_per_s)}`;
}

const HEADINGS = ["from", "to", "median", "p99", "loss", "bandwidth"];

function figures(hosts, cells) {
  return cells.map((cell) => [hosts[cell.from], hosts[cell.to], micros(cell.median_us), micros(cell.p99_us), share(cell.lost_share), rate(cell.rate_bits_per_s)]);
}

function row({ hosts, cells }, from) {
  const rows = figures(hosts, cells.filter((cell) => cell.from === from));
  return rows.length ? table(`From ${hosts[from]}`, HEADINGS, rows, [2, 3, 4, 5]) : nothing(`${hosts[from]} measures nobody.`);
}

function worst({ hosts, cells }, measure) {
  const better = MEASURES[measure][2];
  const measured = cells.filter((cell) => cell[measure] !== null && cell[measure] !== undefined);
  if (!measured.length) return nothing("Nothing was measured lately.");
  const sorted = measured.sort((a, b) => better * (b[measure] - a[measure])).slice(0, 15);
  return table("The worst", HEADINGS, figures(hosts, sorted), [2, 3, 4, 5]);
}
