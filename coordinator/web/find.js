// A host, switch or link of the map by its name: however many there are, it is marked, named and brought near.

import { h, s } from "./dom.js";

/** This many are named at once. */
const NAMED = 60;
/** No nearer than this: a node that is found is seen with those around. */
const LEAST = 360;

/** The field for it; `choose` gets a link once it is the one that is meant. */
export function finder({ fabric, at, map, whole, lines, nodes }, choose) {
  const said = h("small", { role: "status" });
  const field = h("input", { type: "search", placeholder: "host, switch or link", "aria-label": "Find on the map", oninput: look, onkeydown: enter });
  let found = { nodes: [], links: [] };

  function look() {
    const text = field.value.trim().toLowerCase();
    found = text ? named(text) : { nodes: [], links: [] };
    const [wantedNodes, wantedLinks] = [new Set(found.nodes), new Set(found.links)];
    for (const [name, element] of lines) element.classList.toggle("wanted", wantedLinks.has(name));
    for (const [name, element] of nodes) element.classList.toggle("wanted", wantedNodes.has(name));
    label(found.nodes.slice(0, NAMED));
    const seen = near();
    map.setAttribute("viewBox", seen ?? whole);
    map.classList.toggle("near", seen !== null);
    said.textContent = text ? summarize() : "";
    if (found.links.length === 1 && !found.nodes.length) choose(found.links[0]);
  }

  /** Of a node that is called exactly so its own links, and not those of others whose names begin as its does. */
  function named(text) {
    const names = ofName(fabric.nodes.map((it) => it.name), text);
    const isMeant = names.length === 1 && names[0].toLowerCase() === text;
    const links = isMeant ? fabric.links.filter(({ a, b }) => names.includes(a) || names.includes(b)).map((it) => it.name) : ofName(fabric.links.map((it) => it.name), text);
    return { nodes: names, links };
  }

  function enter(event) {
    if (event.key === "Enter" && found.links.length) choose(found.links[0]);
  }

  /** Those of a crowd have no names until they are asked for. */
  function label(names) {
    for (const words of map.querySelectorAll(".asked")) words.remove();
    for (const name of names) {
      const element = nodes.get(name);
      const { x, y } = at.get(name);
      // Above all others.
      map.append(element);
      if (!element.querySelector("text")) element.append(s("text", { class: "asked", x, y: y - 8 }, name));
    }
  }

  /** Where all that is found is seen; null where that is no nearer. */
  function near() {
    const ends = fabric.links.filter(({ name }) => found.links.includes(name)).flatMap(({ a, b }) => [a, b]);
    const spots = [...found.nodes, ...ends].map((name) => at.get(name));
    if (!spots.length || nodes.size <= 200) return null;
    const [, , width, height] = whole.split(" ").map(Number);
    const [left, top] = ["x", "y"].map((axis) => Math.min(...spots.map((it) => it[axis])));
    const [right, bottom] = ["x", "y"].map((axis) => Math.max(...spots.map((it) => it[axis])));
    const wide = Math.min(width, Math.max(LEAST, right - left + 120));
    const high = Math.min(height, Math.max(LEAST * height / width, bottom - top + 120));
    return [(left + right - wide) / 2, (top + bottom - high) / 2, wide, high].join(" ");
  }

  function summarize() {
    const count = found.nodes.length + found.links.length;
    const first = [...found.nodes, ...found.links].slice(0, 4).join(", ");
    return count ? `${count} found: ${first}${count > 4 ? ", …" : ""}` : "No match.";
  }

  return h("div", { class: "bar" }, field, said);
}

/** A node of exactly this name is meant, and else all whose names have it. */
export function ofName(names, text) {
  const exact = names.filter((name) => name.toLowerCase() === text);
  return exact.length ? exact : names.filter((name) => name.toLowerCase().includes(text));
}
