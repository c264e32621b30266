// Findings with their evidence. A kind that is not known here is shown field by field.

import { chip, h, nothing, table } from "./dom.js";
import { COLLIDES, about, byBadness, classOf, way } from "./troubles.js";
import { rate, share } from "./units.js";

/** `name` tells what a flow is called, `hurt` which jobs suffer where these flows do. */
export function findingCards({ findings, not_seen }, name, hurt = () => []) {
  const unseen = gaps(not_seen, name);
  if (!findings.length) return h("div", {}, nothing("No findings."), unseen);
  return h("div", { class: "cards" }, byBadness(findings).map((finding) => card(finding, name, hurt)), unseen);
}

const FIRST = 2;

/** Each on a line of its own, and many folded. */
function gaps({ nodes, ways_of, doubts }, name) {
  const holes = [
    ...nodes.map((node) => `${node} does not report`),
    ...ways_of.map((flow) => `the path of ${name(flow)} is unknown`),
    ...doubts.map(spaced),
  ];
  if (!holes.length) return null;
  const lines = (some) => h("ul", { class: "gaps" }, some.map((words) => h("li", {}, words)));
  const rest = holes.slice(FIRST);
  return h("div", { class: "unseen" }, h("p", { class: "warn" }, holes.length === 1 ? "Incomplete data:" : `Incomplete data, ${holes.length} gaps:`), lines(holes.slice(0, FIRST)),
    rest.length ? h("details", {}, h("summary", {}, `and ${rest.length} more`), lines(rest)) : null);
}

/** `h3 > … > h4` of `h3>*>h4`: what was measured and left out names ways so. */
const spaced = (doubt) => doubt.replace(/(\S)>(?=\S)/g, "$1 > ").replaceAll("> * >", "> … >");

function card(finding, name, hurt) {
  const [kind, evidence] = Object.entries(finding)[0];
  return h("article", { class: "card" }, h("h3", {}, chip(classOf(finding), "warn")), (KINDS[kind] ?? fields)(evidence, name, hurt));
}

const KINDS = {
  "ecmp-collision": ({ hop, utilization, losers, with_room }, name, hurt) => [
    h("p", {}, `${way(hop)}, ${share(COLLIDES)} sure.`),
    h("p", {}, `${losers.length} flows share it, and it is ${share(utilization)} full; free capacity on ${with_room.map(way).join(", ") || "no equivalent link"}.`),
    table("Slowed flows", ["flow", "has", "could have"], losers.map((it) => [name(it.flow), rate(it.rate_bits_per_s), rate(it.fair_rate_bits_per_s)]), [1, 2]),
    ...helps("rebalance: reweave plan", hurt(losers.map((it) => it.flow))),
  ],
  "useless-pin": ({ flow, hop, because }, name) =>
    h("p", {}, `${name(flow)} is pinned at ${hop.from} to ${hop.to}, ${because === "flow-ended" ? "and has ended" : `and the path from there is blocked: ${because["way-down"]?.links.join(", ")} down or drained`}.`),
  "cause": ({ subject, evidence, confidence, remedy, jobs }) => [
    h("p", {}, `${about(subject)}, ${share(confidence)} sure.`),
    h("ul", {}, evidence.map((said) => h("li", {}, said))),
    ...helps(remedy, jobs),
  ],
};

const helps = (remedy, jobs) => [h("p", {}, `Remedy: ${remedy}.`), jobs.length ? h("p", {}, `Jobs hurt: ${jobs.join(", ")}`) : null];

function fields(value) {
  if (value === null || typeof value !== "object") return String(value ?? "–");
  if (Array.isArray(value)) return h("ul", {}, value.map((one) => h("li", {}, fields(one))));
  return h("dl", { class: "fields" }, Object.entries(value).map(([name, part]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, fields(part))]));
}
