// Findings with their evidence. A kind that is not known here is told field by field.

import { chip, h, nothing, table } from "./dom.js";
import { rate, share } from "./units.js";

/** `name` tells what a flow is called. */
export function findingCards({ findings, not_seen }, name) {
  const holes = [
    ...not_seen.nodes.map((node) => `${node} does not report`),
    ...not_seen.ways_of.map((flow) => `the way of ${name(flow)} is not known`),
    ...not_seen.doubts,
  ];
  const unseen = holes.length ? h("p", { class: "warn" }, `Not seen: ${holes.join("; ")}`) : null;
  if (!findings.length) return h("div", {}, nothing("Nothing is found to be wrong."), unseen);
  return h("div", { class: "cards" }, findings.map((finding) => card(finding, name)), unseen);
}

function card(finding, name) {
  const [kind, evidence] = Object.entries(finding)[0];
  const title = kind.replaceAll("-", " ");
  return h("article", { class: "card" }, h("h3", {}, chip(TITLES[evidence.class] ?? title, "warn")), (KINDS[kind] ?? fields)(evidence, name));
}

const KINDS = {
  "ecmp-collision": ({ hop, utilization, losers, with_room }, name) => [
    h("p", {}, `${losers.length} flows share ${hop.from} → ${hop.to}, which is ${share(utilization)} full; there is room on ${with_room.map((it) => `${it.from} → ${it.to}`).join(", ") || "no equal way"}.`),
    table("Flows that lose", ["flow", "has", "could have"], losers.map((it) => [name(it.flow), rate(it.rate_bits_per_s), rate(it.fair_rate_bits_per_s)]), [1, 2]),
  ],
  "useless-pin": ({ flow, hop, because }, name) =>
    h("p", {}, `${name(flow)} is pinned at ${hop.from} to ${hop.to}, ${because === "flow-ended" ? "and has ended" : `and no way leads on: ${because["way-down"]?.links.join(", ")} down`}.`),
  "cause": ({ subject, evidence, confidence, remedy, jobs }) => [
    h("p", {}, `${about(subject)}, ${share(confidence)} sure.`),
    h("ul", {}, evidence.map((said) => h("li", {}, said))),
    h("p", {}, `What helps: ${remedy}.`),
    jobs.length ? h("p", {}, `Jobs hurt: ${jobs.join(", ")}`) : null,
  ],
};

/** What each class of cause is called. */
const TITLES = {
  "bad-optic": "bad optic or cable",
  "lossy-link": "lossy link",
  "faulty-host": "faulty host",
  "faulty-switch": "faulty switch",
  "ecmp-collision": "ECMP collision",
  "pfc-storm": "PFC storm",
  "pfc-deadlock": "PFC deadlock",
  "straggler": "straggler",
  "pcie-downgrade": "PCIe downgrade",
  "nic-flap": "link that flaps",
  "mtu-mismatch": "MTU mismatch",
  "configuration-mismatch": "configuration mismatch",
  "asymmetric-route": "asymmetric route",
  "incast": "incast",
  "rank-order": "rank order against racks",
  "allreduce-linear": "all-reduce time linear in world size",
  "node-always-first": "one node always first",
  "pipeline-across-spine": "pipeline across the spine",
  "tensor-across-hosts": "tensor parallel across hosts",
  "slow-pair": "slow pair of hosts",
  "latency": "latency changed",
  "host-bound": "host-bound job",
  "dying-optic": "dying optic",
  "saturation": "link will saturate",
  "clocks-apart": "clocks apart",
  "unsent-probes": "unsent probes",
};

/** Of what or whom a cause speaks. */
function about(subject) {
  const [kind, what] = Object.entries(subject)[0];
  switch (kind) {
    case "hop": return `${what.from} → ${what.to} (${what.link})`;
    case "link": return `the link ${what.link}, both ways`;
    case "job": return `job ${what}`;
    case "pair": return what.join(" and ");
    case "ambiguous": return `one of: ${what.map(about).join("; ")}. What was measured fits each of them`;
    default: return what;
  }
}

function fields(value) {
  if (value === null || typeof value !== "object") return String(value ?? "–");
  if (Array.isArray(value)) return h("ul", {}, value.map((one) => h("li", {}, fields(one))));
  return h("dl", { class: "fields" }, Object.entries(value).map(([name, part]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, fields(part))]));
}
