// The fabric as a map: links by load, those in trouble first to be seen, and the path of a flow.

import { h, nothing, panel, s, table } from "./dom.js";
import { finder } from "./find.js";
import { layout } from "./layout.js";
import { places } from "./troubles.js";
import { age, flow as flowName, rate, share } from "./units.js";

const LEVELS = ["idle", "low", "half", "high", "full"];

export function fabric(known, wanted) {
  const { at, width, height } = layout(known.fabric);
  const lines = new Map(known.fabric.links.map((link, index) => [link.name, line(link, at, choose, index === 0)]));
  const nodes = new Map(known.fabric.nodes.map((node) => [node.name, dot(node, at, known.fabric.nodes.length)]));
  const whole = `0 0 ${width} ${height}`;
  const map = s("svg", { viewBox: whole, class: known.fabric.nodes.length > 200 ? "map many" : "map", role: "group", "aria-label": "Map of the fabric" },
    [...lines.values()], [...nodes.values()]);
  const search = finder({ fabric: known.fabric, at, map, whole, lines, nodes }, (name) => { if (chosen !== name) choose(name); });
  const detail = h("div", { class: "detail", "aria-live": "polite" });
  // What is in it comes and goes under the pointer, which would never get an event that it has left.
  const under = (event) => trace((known.was ?? known.status).flows.find((flow) => flowName(flow.flow) === event.target.closest("li")?.title) ?? null);
  const list = h("div", { onmouseover: under, onfocusin: under, onmouseleave: () => trace(null), onfocusout: () => trace(null) });
  let chosen = wanted ?? null;
  let traced = null;

  function choose(name) {
    chosen = chosen === name ? null : name;
    heard();
  }

  function heard() {
    const { links, flows } = known.was ?? known.status;
    const of = new Map(known.fabric.links.map((link) => [link.name, []]));
    for (const link of links) of.get(link.hop.link)?.push(link);
    // What is found is of now, and what was found then is unknown.
    const found = places(known.was ? [] : known.findings?.findings ?? []);
    for (const [name, directions] of of) dress(lines.get(name), directions, found.links.get(name) ?? [], name === chosen);
    for (const [name, element] of nodes) mark(element, name, found.nodes.get(name) ?? []);
    detail.replaceChildren(chosen ? described(chosen, of.get(chosen) ?? [], flows, found.links.get(chosen) ?? []) : hint());
    show(flows);
  }

  /** Again, but a pointer at a flow stays there, for as long as there is one. */
  function show(flows) {
    const [held, was] = [list.contains(document.activeElement), traced];
    list.replaceChildren(largest(flows));
    trace(flows.find((flow) => flowName(flow.flow) === was) ?? null);
    if (held) [...list.querySelectorAll("li")].find((it) => it.title === traced)?.focus();
  }

  function trace(flow) {
    traced = flow && flowName(flow.flow);
    highlight(flow?.path);
  }

  function highlight(path) {
    const names = new Set((path ?? []).map((hop) => hop.link));
    for (const [name, element] of lines) element.classList.toggle("onpath", names.has(name));
    map.classList.toggle("tracing", names.size > 0);
  }

  return { element: h("div", { class: "columns" }, panel("Fabric", search, map, legend()), h("div", {}, panel("Link", detail), panel("Largest flows", list))), heard };
}

/** A fabric is one stop of the Tab key, however large; within it arrow keys go from link to link. */
function step(line, event) {
  const by = { ArrowRight: "nextElementSibling", ArrowDown: "nextElementSibling", ArrowLeft: "previousElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const next = by && line[by];
  if (!next?.classList.contains("link")) return;
  event.preventDefault();
  line.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

function line({ name, a, b }, at, choose, isFirst) {
  const [from, to] = [at.get(a), at.get(b)];
  const press = (event) => {
    step(event.currentTarget, event);
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(name);
    }
  };
  return s("line", {
    x1: from.x, y1: from.y, x2: to.x, y2: to.y, class: "link", tabindex: isFirst ? "0" : "-1", role: "button",
    "aria-label": `Link ${name}`, onclick: () => choose(name), onkeydown: press,
  }, s("title", {}, name));
}

function dot({ name, role }, at, many) {
  const { x, y } = at.get(name);
  const size = many > 200 && role !== "switch" ? 4 : role === "switch" ? 11 : 8;
  const mark = role === "switch"
    ? s("rect", { x: x - size, y: y - size * 0.7, width: 2 * size, height: 1.4 * size, rx: 3 })
    : s("circle", { cx: x, cy: y, r: size });
  const words = many > 200 && role !== "switch" ? null : s("text", { x, y: y + (role === "switch" ? -14 : 24) }, name);
  return s("g", { class: `node ${role}` }, s("title", {}, name), mark, words);
}

/** A node of which something is found. */
function mark(element, name, found) {
  element.classList.toggle("found", found.length > 0);
  element.firstElementChild.textContent = [name, ...found].join(": ");
}

/** The fuller direction counts; that it is down, and then what is found of it, counts for more than what it carries. */
function dress(element, directions, found, isChosen) {
  const load = Math.max(0, ...directions.map((it) => it.rate_bits_per_s / it.capacity_bits_per_s));
  const isDown = directions.some((it) => !it.up);
  const level = LEVELS[Math.min(LEVELS.length - 1, Math.floor(load * LEVELS.length))];
  const isDrained = directions.some((it) => it.drained);
  const kind = isDown ? "down" : found.length ? "found" : isDrained ? "drained" : directions.length ? level : "unknown";
  const kept = ["onpath", "wanted"].filter((name) => element.classList.contains(name));
  element.setAttribute("class", ["link", kind, ...(isChosen ? ["chosen"] : []), ...kept].join(" "));
  const words = [isDown ? "down" : directions.length ? share(load) : "not measured", ...(isDrained ? ["drained"] : []), ...found];
  element.firstElementChild.textContent = `${element.getAttribute("aria-label")}: ${words.join(", ")}`;
}

function hint() {
  return nothing("Choose a link to see its flows.");
}

function described(name, directions, flows, found) {
  const wrong = found.length ? h("p", { class: "bad" }, `Findings: ${found.join(", ")}; see Overview for the evidence.`) : null;
  if (!directions.length) return h("div", {}, h("h3", {}, name), wrong ?? "", nothing("No recent measurement."));
  const rows = directions.map((it) => [
    `${it.hop.from} > ${it.hop.to}`, it.up ? (it.drained ? "drained" : "up") : "down", rate(it.rate_bits_per_s),
    share(it.rate_bits_per_s / it.capacity_bits_per_s), rate(it.spare_bits_per_s), age(it.age_ms),
  ]);
  const over = flows.filter((flow) => flow.path?.some((hop) => hop.link === name));
  return h("div", {}, h("h3", {}, name), wrong,
    table("Each direction", ["direction", "state", "load", "of capacity", "spare", "age"], rows, [2, 3, 4, 5]),
    over.length
      ? table("Flows over it", ["from", "to", "rate"], over.map((flow) => [flow.from, flow.to, rate(flow.rate_bits_per_s)]), [2])
      : nothing("No known flow uses it."));
}

function largest(flows) {
  const sorted = [...flows].sort((a, b) => b.rate_bits_per_s - a.rate_bits_per_s).slice(0, 12);
  if (!sorted.length) return nothing("No active flows.");
  return h("ul", { class: "flows" }, sorted.map((flow) => h("li", {
    tabindex: "0", title: flowName(flow.flow),
  }, h("span", {}, `${flow.from} > ${flow.to}`), h("b", {}, rate(flow.rate_bits_per_s)), flow.path ? null : h("i", {}, "path unknown"))));
}

function legend() {
  const words = ["under 20 %", "under 40 %", "under 60 %", "under 80 %", "fuller"];
  const entries = [...LEVELS.map((level, index) => [level, words[index]]), ["found", "has findings"], ["drained", "drained"], ["down", "down"], ["unknown", "not measured"]];
  return h("ul", { class: "legend", "aria-label": "Legend of colours" },
    entries.map(([kind, meaning]) => h("li", {}, s("svg", { width: 26, height: 8, "aria-hidden": "true" }, s("line", { x1: 1, y1: 4, x2: 25, y2: 4, class: `link ${kind}` })), meaning)));
}
