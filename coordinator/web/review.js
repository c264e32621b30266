// A plan before a person who may approve it: what it does line by line, what that promises, and why nothing else.

import { chip, h, nothing, table } from "./dom.js";
import { findingCards } from "./findings.js";
import { micros, rate } from "./units.js";

/** Without `approve`, it is for looking only; `not_seen` may be unknown. */
export function reviewed(plan, not_seen, name, approve) {
  const { report, predictions, iterations, moves } = plan;
  return h("div", { class: "review" },
    h("p", {}, heading(plan)),
    difference(plan, name),
    moves.length ? table("What moves", ["flow", "now over", "then over"], moves.map((move) => [name(move.flow), hop(move.from), hop(move.to)])) : null,
    predictions.length ? table("Predictions", ["flow", "now", "then", "within"], predictions.map((it) => promised(it, name)), [1, 2, 3]) : nothing("No predicted rates."),
    iterations.length ? table("Predictions for jobs", ["iterations of the job on", "now", "then", "within"], iterations.map(awaited), [1, 2, 3]) : null,
    touched(plan), routes(plan), circuits(plan),
    h("details", {}, h("summary", {}, "Why"), findingCards({ findings: report.findings, not_seen: not_seen ?? NOTHING }, name), lost(report.alternatives, name)),
    approval(plan, approve));
}

const NOTHING = { nodes: [], ways_of: [], doubts: [] };

function heading({ generation, parent, takes_back, report, moves }) {
  const what = `Plan ${generation}, upon ${parent}`;
  if (takes_back !== null) return `${what}, rolls plan ${takes_back} back.`;
  if (!moves.length) return `${what}.`;
  return `${what}: the slowest flow goes from ${rate(report.slowest_before_bits_per_s)} to ${rate(report.slowest_after_bits_per_s)}.`;
}

/** Insisting is for an operator who has seen what it costs. */
function approval(plan, approve) {
  const option = (key, words) => h("input", { type: "checkbox", name: key, disabled: !approve, "aria-label": words });
  const options = [["force", "Keep it even if flows become slower"], ["now", "Apply outside change windows"]].map(([key, words]) => [option(key, words), words]);
  const insisting = () => {
    const chosen = options.map(([box]) => box).filter((box) => box.checked).map((box) => `${box.name}=true`);
    return chosen.length ? `?${chosen.join("&")}` : "";
  };
  return h("div", { class: "bar" },
    h("button", { type: "button", class: "main", disabled: !approve, onclick: () => approve(plan, insisting()) }, `Approve plan ${plan.generation}`),
    options.map(([box, words]) => h("label", {}, box, " ", words)));
}

const KIND = { "live-safe": "good", "needs-drain": "warn", "next-restart": "warn" };

function difference(plan, name) {
  const { changes } = plan;
  if (!changes.length) return nothing("No changes to the state in force.");
  return table("Changes", ["", "change", "for running jobs"], changes.map(({ what, tag }) => [...line(what, name, plan), chip(tag.replaceAll("-", " ").replace("live ", "live-"), KIND[tag] ?? "")]));
}

export const signed = (sign, kind, words) => [h("b", { class: kind, "aria-label": { "+": "added", "−": "removed", "~": "changed" }[sign] }, sign), words];

function line(what, name, plan) {
  const [kind, it] = Object.entries(what)[0];
  switch (kind) {
    case "pin": return signed("+", "plus", `pin ${name(it.flow)} to ${hop(it.hop)}`);
    case "unpin": return signed("−", "minus", `unpin ${name(it.flow)} from ${hop(it.hop)}`);
    case "connect": return signed("+", "plus", `circuit ${joint(it)}`);
    case "disconnect": return signed("−", "minus", `circuit ${joint(it)}`);
    case "routes": return signed("~", "same", `routes of ${it.node} towards ${it.towards} hosts${behind(plan, it.node)}`);
    case "ranks": return signed("~", "same", ranks(it));
    default: return ["", kind];
  }
}

const ranks = ({ job, order, ring_bits_per_s: ring }) => `order ranks of ${job}: ${order.join(",")}${ring ? ` (ring from ${rate(ring[0])} to ${rate(ring[1])})` : ""}`;

const joint = ({ optical, circuit, ends }) => `${optical} ${circuit.join("-")}${ends.length ? ` (${ends.join(" to ")})` : ""}`;

const BEHIND = "behind ";
const MOST_LEAVES = 4;

/** The leaves whose routes change at a node, where routes lead to the NICs behind these. */
function behind({ tables, base, migration }, node) {
  const before = (base?.tables ?? migration?.tables_before ?? {})[node] ?? {};
  const changed = differing(before, tables[node] ?? {}).flatMap(([, , destinations]) => destinations);
  const leaves = changed.filter((it) => it.startsWith(BEHIND)).map((it) => it.slice(BEHIND.length)).sort();
  if (!leaves.length) return "";
  const more = leaves.length - MOST_LEAVES;
  return ` ${BEHIND}${leaves.slice(0, MOST_LEAVES).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** Of each node's table what differs from the one before, where that is known; hosts of one way together. */
function routes({ tables, migration }) {
  const before = migration?.tables_before ?? {};
  const nodes = [...new Set([...Object.keys(before), ...Object.keys(tables)])].sort();
  const rows = nodes.flatMap((node) => differing(before[node] ?? {}, tables[node] ?? {}).map(([then, now, hosts]) => [node, hosts.join(", "), now, then]));
  if (!rows.length) return null;
  return h("details", {}, h("summary", {}, "Routes"), table("Routes that change", ["node", "towards", "before", "then"], rows.slice(0, MOST)),
    rows.length > MOST ? nothing(`and ${rows.length - MOST} others`) : null);
}

const MOST = 200;
const OWN = "the network's own routes";

function differing(before, after) {
  const groups = new Map();
  for (const host of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [now, then] = [over(before[host]), over(after[host])];
    if (now === then) continue;
    const key = JSON.stringify([then, now]);
    groups.set(key, [...(groups.get(key) ?? []), host]);
  }
  return [...groups].map(([key, hosts]) => [...JSON.parse(key), hosts]);
}

function over(ways) {
  if (!ways) return OWN;
  const weighted = ways.some(({ weight }) => weight !== ways[0].weight);
  return ways.map(({ link, weight }) => (weighted ? `${link} ×${weight}` : link)).join(", ") || "nothing";
}

/** In what order circuits move, and what is drained before. */
function circuits({ migration }) {
  const waves = (migration?.waves ?? []).filter((wave) => Object.keys(wave.circuits).length);
  if (!waves.length) return null;
  const nodes = (rounds) => [...new Set(rounds.flatMap(Object.keys))].join(", ") || "–";
  const moved = (sets) => Object.entries(sets).map(([optical, set]) => `${optical}: ${set.map((pair) => pair.join("-")).join(", ")}`).join("; ");
  return h("details", {}, h("summary", {}, "Order"), table("Waves of circuits", ["", "drained first", "then holds", "back in use"],
    waves.map((wave, index) => [String(index + 1), nodes(wave.drain), moved(wave.circuits), nodes(wave.undrain)])));
}

/** Whose flows it moves or slows; and why it may not be carried out just now. */
function touched({ touched: jobs, hindered_by }) {
  return [
    jobs.length ? table("Affected jobs", ["job", "flows moved", "flows slowed", "of"], jobs.map((it) => [it.job, String(it.moved), String(it.slowed), String(it.flows)]), [1, 2, 3]) : nothing("No affected jobs."),
    hindered_by.map((words) => h("p", { class: "warn" }, words)),
  ];
}

const hop = ({ from, to, link }) => `${from} > ${to} (${link})`;

function promised(it, name) {
  return [name(it.flow), rate(it.before_bits_per_s), rate(it.after_bits_per_s), `${rate(it.low_bits_per_s)} – ${rate(it.high_bits_per_s)}`];
}

export const ms = (value) => micros(1000 * value);

const awaited = (it) => [it.job, ms(it.before_ms), ms(it.after_ms), `${ms(it.low_ms)} – ${ms(it.high_ms)}`];

function lost(alternatives, name) {
  if (!alternatives.length) return nothing("No alternatives.");
  return table("Alternatives", ["moves", "slowest flow then", "because"],
    alternatives.map((one) => [one.moves.map((move) => `${name(move.flow)} to ${hop(move.to)}`).join("; ") || "nothing", rate(one.slowest_after_bits_per_s), reason(one.lost_because)]), [1]);
}

const reason = (value) => (typeof value === "string" ? value : Object.keys(value)[0]).replaceAll("-", " ");
