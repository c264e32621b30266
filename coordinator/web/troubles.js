// What is found to be wrong, at a glance: how much there is, the worst of it, and of which links and nodes.

import { TITLES } from "./classes.js";
import { called } from "./running.js";

/** As sure as the coordinator is when it tells a job of a collision; what serves no flow hurts none. */
export const COLLIDES = 0.9;
const sure = (finding) => finding.cause?.confidence ?? (finding["ecmp-collision"] ? COLLIDES : 0);

/** The surest first. */
export const byBadness = (findings) => [...findings].sort((a, b) => sure(b) - sure(a));

/** `2 findings, the worst: lossy link, leaf0 > spine1 (leaf0-spine1)`; nothing where none is. */
export function atAGlance(findings) {
  const [worst] = byBadness(findings);
  if (!worst) return null;
  const words = `${classOf(worst)}, ${placeOf(worst)}`;
  return findings.length === 1 ? `1 finding: ${words}` : `${findings.length} findings, the worst: ${words}`;
}

export function classOf(finding) {
  const [kind, evidence] = Object.entries(finding)[0];
  return wordsFor(evidence.class ?? kind);
}

/** The same for a word of the history, which may be of something else. */
export const wordsFor = (what) => TITLES[what] ?? called(what);

/** `leaf0 > spine0`, which is how the terminal says it too. */
export const way = ({ from, to }) => `${from} > ${to}`;

function placeOf(finding) {
  const [, { subject, hop }] = Object.entries(finding)[0];
  if (subject?.ambiguous) return subject.ambiguous.map(about).join(" or ");
  return subject ? about(subject) : hop ? way(hop) : "";
}

/** Of what or whom a cause speaks. */
export function about(subject) {
  const [kind, what] = Object.entries(subject)[0];
  switch (kind) {
    case "hop": return `${way(what)} (${what.link})`;
    case "link": return `the link ${what.link}, both ways`;
    case "job": return `job ${what}`;
    case "pair": return what.join(" and ");
    case "all": return what.map(about).join(", ");
    case "ambiguous": return `one of: ${what.map(about).join("; ")}. The measurements fit each of them`;
    default: return what;
  }
}

/** What is found of links and of nodes, by their names: words of each. */
export function places(findings) {
  const [links, nodes] = [new Map(), new Map()];
  const put = (map, name, words) => map.set(name, [...new Set([...(map.get(name) ?? []), words])]);
  for (const finding of byBadness(findings)) {
    const { subject, hop } = Object.values(finding)[0];
    for (const [kind, what] of subject ? suspects(subject) : hop ? [["hop", hop]] : []) {
      if (kind === "hop" || kind === "link") put(links, what.link, classOf(finding));
      if (kind === "host" || kind === "switch") put(nodes, what, classOf(finding));
    }
  }
  return { links, nodes };
}

function suspects(subject) {
  const [kind, what] = Object.entries(subject)[0];
  return kind === "all" || kind === "ambiguous" ? what.flatMap(suspects) : [[kind, what]];
}
