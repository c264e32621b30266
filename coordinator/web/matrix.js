// Hosts against hosts as a heat map; a host's row or column, chosen, is told in figures.

import { Problem, get } from "./api.js";
import { h, nothing, panel, table } from "./dom.js";
import { cellAt, indexed, paint, worst } from "./heat.js";
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
  const cursor = h("div", { class: "cursor", hidden: true });
  const said = h("p", { class: "said", "aria-live": "polite" });
  const scale = h("p", { class: "scale bar" });
  const detail = h("div", {});
  const choice = h("select", { "aria-label": "What to show", onchange: draw },
    Object.entries(MEASURES).map(([key, [words]]) => h("option", { value: key }, words)));
  let shown = null;
  let spot = null;
  let timer = 0;
  let asking = false;

  /** Of the past it is in what was heard. */
  function heard() {
    if (!known.was || shown?.of === known.was) return;
    shown = { ...indexed(known.was.matrix), of: known.was };
    draw();
  }

  async function load() {
    if (asking || known.was) return;
    asking = true;
    try {
      const answer = await get("/matrix");
      if (known.was) return;
      shown = indexed(answer);
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
    scale.replaceChildren(...(ends ? [told(ends[0]), h("span", { class: "gradient" }), told(ends[1])] : [`${words}: ${known.was && choice.value === "rate_bits_per_s" ? "not part of the history" : "nothing measured"}`]));
    canvas.dataset.painted = range ? "yes" : "no";
    tell();
  }

  function tell() {
    if (!shown) return;
    cursor.hidden = !spot;
    if (!spot) {
      said.textContent = "Point at a cell, or choose one with the arrow keys.";
      return detail.replaceChildren(worstOf(shown, choice.value));
    }
    const [from, to] = spot;
    const { hosts } = shown;
    const [top, left, size] = [from, to, 1].map((places) => `${(100 * places) / hosts.length}%`);
    Object.assign(cursor.style, { top, left, width: size, height: size });
    const cell = cellAt(shown, from, to);
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
      panel("Between hosts", h("div", { class: "bar" }, choice, scale), h("div", { class: "heated" }, canvas, cursor), said), panel("In figures", detail)),
    heard,
    leave: () => clearInterval(timer),
  };
}

function inWords(cell) {
  return `${micros(cell.median_us)} (one in a hundred ${micros(cell.p99_us)}), loss ${share(cell.lost_share)}, ${rate(cell.rate_bits_per_s)}`;
}

const HEADINGS = ["from", "to", "median", "p99", "loss", "bandwidth"];

function figures(hosts, cells) {
  return cells.map((cell) => [hosts[cell.from], hosts[cell.to], micros(cell.median_us), micros(cell.p99_us), share(cell.lost_share), rate(cell.rate_bits_per_s)]);
}

function row(shown, from) {
  const rows = figures(shown.hosts, shown.hosts.map((_, to) => cellAt(shown, from, to)).filter(Boolean));
  return rows.length ? table(`From ${shown.hosts[from]}`, HEADINGS, rows, [2, 3, 4, 5]) : nothing(`${shown.hosts[from]} measures nobody.`);
}

function worstOf(shown, measure) {
  const found = worst(shown, measure, MEASURES[measure][2], 15);
  return found.length ? table("The worst", HEADINGS, figures(shown.hosts, found), [2, 3, 4, 5]) : nothing("Nothing was measured lately.");
}
