// Hosts against hosts as a heat map; a host's row or column, chosen, is shown in figures.

import { Problem, get } from "./api.js";
import { h, nothing, panel, table } from "./dom.js";
import { axes } from "./axes.js";
import { ofName } from "./find.js";
import { cellAt, indexed, paint, wholeOf, worst, worstOn } from "./heat.js";
import { micros, rate, share } from "./units.js";

const EVERY_MS = 2000;
const MEASURES = {
  median_us: ["Latency, median", micros, 1],
  p99_us: ["Latency, p99", micros, 1],
  lost_share: ["Loss", share, 1],
  rate_bits_per_s: ["Bandwidth", rate, -1],
};

export function matrix(known) {
  const canvas = h("canvas", { class: "heat", tabindex: "0", role: "img", "aria-label": "Heat map of hosts against hosts" });
  const cursor = h("div", { class: "cursor", hidden: true });
  const names = axes();
  const said = h("p", { class: "said summary", "aria-live": "polite" });
  const scale = h("p", { class: "scale bar" });
  const detail = h("div", {});
  const choice = h("select", { "aria-label": "What to show", onchange: draw },
    Object.entries(MEASURES).map(([key, [words]]) => h("option", { value: key }, words)));
  const rails = known.was ? [] : trainingRails(known.fabric);
  const rail = h("select", { "aria-label": "Rail", onchange: () => load() },
    h("option", { value: "" }, "All rails"), rails.map((number) => h("option", { value: number }, `Rail ${number}`)));
  const field = h("input", { type: "search", placeholder: "host", "aria-label": "Find a host", oninput: find });
  const whole = h("button", { type: "button", disabled: true, onclick: () => see(wholeOf(shown)) }, "All hosts");
  let shown = null;
  let part = null;
  let spot = null;
  let timer = 0;
  let asking = false;

  /** Of the past it is in what was heard. */
  function heard() {
    if (!known.was || shown?.of === known.was) return;
    take({ ...indexed(known.was.matrix), of: known.was });
  }

  async function load() {
    if (asking || known.was) return;
    asking = true;
    const of = rail.value;
    try {
      const answer = await get(of ? `/matrix?rail=${of}` : "/matrix");
      if (!known.was && of === rail.value) take(indexed(answer));
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      said.textContent = problem.message;
    } finally {
      asking = false;
    }
  }

  /** What was enlarged stays so for as long as the hosts are the same. */
  function take(next) {
    if (shown?.hosts.join() !== next.hosts.join()) [part, spot] = [wholeOf(next), null];
    shown = next;
    draw();
  }

  const room = () => canvas.clientWidth * (window.devicePixelRatio || 1);

  function draw() {
    if (!shown) return;
    const [words, figure, better] = MEASURES[choice.value];
    const range = paint(canvas, shown, choice.value, better, part, room());
    const ends = better > 0 ? range : range?.toReversed();
    scale.replaceChildren(...(ends ? [figure(ends[0]), h("span", { class: "gradient" }), figure(ends[1])] : [`${words}: ${known.was && choice.value === "rate_bits_per_s" ? "not part of the history" : "no measurement"}`]));
    canvas.dataset.painted = range ? "yes" : "no";
    names.name(shown.hosts, part, canvas.clientWidth);
    whole.disabled = part.span === shown.hosts.length;
    tell();
  }

  function tell() {
    if (!shown) return;
    cursor.hidden = !spot;
    if (!spot) {
      said.textContent = "Point at a cell, or choose one with the arrow keys; press it (or Enter) to zoom in, Escape for all hosts.";
      return detail.replaceChildren(worstOf(shown, choice.value));
    }
    const [from, to] = spot;
    const { hosts } = shown;
    const [top, left, size] = [from - part.row, to - part.column, 1].map((places) => `${(100 * places) / part.span}%`);
    Object.assign(cursor.style, { top, left, width: size, height: size });
    const cell = cellAt(shown, from, to);
    said.textContent = `${hosts[from]} > ${hosts[to]}: ${cell ? inWords(cell) : "not measured"}`;
    canvas.title = `${hosts[from]} > ${hosts[to]}`;
    detail.replaceChildren(row(shown, from));
  }

  /** Where several pairs share what is pointed at, the worst of them is named: it is the one that is seen. */
  function point(event) {
    if (!shown) return;
    const box = canvas.getBoundingClientRect();
    const side = canvas.width;
    const place = (at, size) => Math.min(side - 1, Math.max(0, Math.floor((at / size) * side)));
    spot = worstOn(shown, choice.value, MEASURES[choice.value][2], part, side, [place(event.clientY - box.top - canvas.clientTop, canvas.clientHeight), place(event.clientX - box.left - canvas.clientLeft, canvas.clientWidth)]);
    tell();
  }

  function see(next) {
    part = next;
    if (spot && !isSeen(spot, part)) spot = null;
    draw();
  }

  /** A fourth of what is seen, with the cell in its middle. */
  function enlarge() {
    if (!shown || !spot || part.span <= LEAST) return;
    see(around(spot, Math.max(LEAST, Math.ceil(part.span / 4)), shown.hosts.length));
  }

  function move(event) {
    if (!shown) return;
    const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Enter") enlarge();
    else if (event.key === "Escape" && !whole.disabled) see(wholeOf(shown));
    if (!by) return;
    event.preventDefault();
    const last = shown.hosts.length - 1;
    spot = (spot ?? [part.row, part.column]).map((at, axis) => Math.min(last, Math.max(0, at + by[axis])));
    if (!isSeen(spot, part)) return see(around(spot, part.span, shown.hosts.length));
    tell();
  }

  /** The row of a host, with whom it fares worst; in a crowd what is around it, so that it can be seen. */
  function find() {
    const text = field.value.trim().toLowerCase();
    const [name] = shown && text ? ofName(shown.hosts, text) : [];
    if (!name) return;
    const from = shown.hosts.indexOf(name);
    spot = [from, worstFrom(shown, choice.value, from)];
    see(shown.hosts.length > CROWD ? around(spot, CROWD, shown.hosts.length) : wholeOf(shown));
  }

  canvas.addEventListener("mousemove", point);
  canvas.addEventListener("click", enlarge);
  canvas.addEventListener("mouseleave", () => { spot = null; tell(); });
  canvas.addEventListener("keydown", move);
  const resized = new ResizeObserver(() => { if (shown && canvas.width !== Math.min(part.span, Math.floor(room()))) draw(); });
  resized.observe(canvas);
  load();
  timer = setInterval(load, EVERY_MS);
  return {
    element: h("div", { class: "columns" },
      panel("Between hosts", h("div", { class: "bar" }, choice, rails.length > 1 && rail, field, whole, scale), said,
        h("div", { class: "plot" }, names.columns, names.rows, h("div", { class: "heated" }, canvas, cursor))), panel("In figures", detail)),
    heard,
    leave: () => { clearInterval(timer); resized.disconnect(); },
  };
}

/** The rails of NICs for training, of which there may be one. */
function trainingRails(fabric) {
  const nics = (fabric?.nics ?? []).filter((nic) => nic.use === "training");
  return [...new Set(nics.map((nic) => nic.rail))].sort((a, b) => a - b);
}

/** So few hosts are not enlarged further, and this many are no crowd. */
const LEAST = 8;
const CROWD = 64;

/** This many hosts with a cell in their middle, as far as there are some on all sides. */
function around([from, to], span, count) {
  const first = (at) => Math.max(0, Math.min(count - span, at - Math.floor(span / 2)));
  return { row: first(from), column: first(to), span: Math.min(span, count) };
}

const isSeen = ([from, to], { row, column, span }) => from >= row && from < row + span && to >= column && to < column + span;

function worstFrom(shown, measure, from) {
  const [, , better] = MEASURES[measure];
  const badness = (to) => better * (cellAt(shown, from, to)?.[measure] ?? NaN);
  return shown.hosts.reduce((worst, _, to) => (badness(to) > (badness(worst) || -Infinity) ? to : worst), from);
}

function inWords(cell) {
  return `${micros(cell.median_us)} (p99 ${micros(cell.p99_us)}), loss ${share(cell.lost_share)}, ${rate(cell.rate_bits_per_s)}`;
}

const HEADINGS = ["from", "to", "median", "p99", "loss", "bandwidth"];

function figures(hosts, cells) {
  return cells.map((cell) => [hosts[cell.from], hosts[cell.to], micros(cell.median_us), micros(cell.p99_us), share(cell.lost_share), rate(cell.rate_bits_per_s)]);
}

function row(shown, from) {
  const rows = figures(shown.hosts, shown.hosts.map((_, to) => cellAt(shown, from, to)).filter(Boolean));
  return rows.length ? table(`From ${shown.hosts[from]}`, HEADINGS, rows, [2, 3, 4, 5]) : nothing(`${shown.hosts[from]} has no measurements.`);
}

function worstOf(shown, measure) {
  const found = worst(shown, measure, MEASURES[measure][2], 15);
  return found.length ? table("The worst", HEADINGS, figures(shown.hosts, found), [2, 3, 4, 5]) : nothing("No recent measurements.");
}
