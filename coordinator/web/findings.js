// Findings with their evidence. A kind that is not known here is told field by field.

import { chip, h, nothing, table } from "./dom.js";
import { rate, share } from "./units.js";

/** `name` tells what a flow is called. */
export function findingCards({ findings, not_seen }, name) {
  const holes = [
    ...not_seen.nodes.map((node) => `${node} does not report`),
    ...not_seen.ways_of.map((flow) => `the way of ${name(flow)} is not known`),
  ];
  const unseen = holes.length ? h("p", { class: "warn" }, `Not seen: ${holes.join("; ")}`) : null;
  if (!findings.length) return h("div", {}, nothing("Nothing is found to be wrong."), unseen);
  return h("div", { class: "cards" }, findings.map((finding) => card(finding, name)), unseen);
}

function card(finding, name) {
  const [kind, evidence] = Object.entries(finding)[0];
  const title = kind.replaceAll("-", " ");
  return h("article", { class: "card" }, h("h3", {}, chip(title, "warn")), (KINDS[kind] ?? fields)(evidence, name));
}

const KINDS = {
  "ecmp-collision": ({ hop, utilization, losers, with_room }, name) => [
    h("p", {}, `${losers.length} flows share ${hop.from} → ${hop.to}, which is ${share(utilization)} full; there is room on ${with_room.map((it) => `${it.from} → ${it.to}`).join(", ") || "no equal way"}.`),
    table("Flows that lose", ["flow", "has", "could have"], losers.map((it) => [name(it.flow), rate(it.rate_bits_per_s), rate(it.fair_rate_bits_per_s)]), [1, 2]),
  ],
  "useless-pin": ({ flow, hop, because }, name) =>
    h("p", {}, `${name(flow)} is pinned at ${hop.from} to ${hop.to}, ${because === "flow-ended" ? "and has ended" : `and no way leads on: ${because["way-down"]?.links.join(", ")} down`}.`),
};

function fields(value) {
  if (value === null || typeof value !== "object") return String(value ?? "–");
  if (Array.isArray(value)) return h("ul", {}, value.map((one) => h("li", {}, fields(one))));
  return h("dl", { class: "fields" }, Object.entries(value).map(([name, part]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, fields(part))]));
}
