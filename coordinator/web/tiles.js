// The tiles under "The cluster": title, figure, and a small note each. A new tile is one line here.

import { h } from "./dom.js";
import { age, micros, rate, share } from "./units.js";

const tile = ([title, value, note]) => h("div", {}, h("dt", {}, title), h("dd", {}, value, h("small", {}, note)));

/** `show(tilesNow(status))`, or of a moment of the past. */
export function tileRow() {
  const element = h("dl", { class: "tiles" });
  return { element, show: (tiles) => element.replaceChildren(...tiles.map(tile)) };
}

export function tilesNow({ agents, links, flows, probes, flow_imbalance, coordinators }) {
  const up = agents.filter((agent) => agent.state === "up").length;
  const slowest = Math.min(...flows.map((flow) => flow.rate_bits_per_s));
  const summary = probes.all;
  const oldest = Math.max(0, ...agents.map((agent) => agent.age_ms ?? 0));
  const voters = coordinators.filter((one) => one.state === "leads" || one.state === "follows").length;
  return [
    ["Agents", `${up} of ${agents.length}`, up ? `oldest report ${age(oldest)}` : ""],
    ["Coordinators", `${voters} of ${coordinators.length}`, coordinators.find((one) => one.state === "leads")?.name ?? "no leader"],
    fullest(links),
    ["Flows", String(flows.length), flows.length ? `slowest ${rate(slowest)}` : ""],
    ["Latency", micros(summary?.network_us?.median), `p99 ${micros(summary?.network_us?.p99)}`],
    ["Loss", summary?.sent ? share(summary.lost / summary.sent) : "–", `${probes.pairs} pairs probed`],
    ["Imbalance", flow_imbalance ? `${flow_imbalance.mean_fim_percent.toFixed(0)} %` : "–", "of flows over equivalent links"],
  ];
}

/** What is known of a moment of the past. */
export function tilesThen({ links, flows, agents, matrix, resolution }) {
  const up = agents.filter((agent) => agent.connected_share > 0).length;
  return [
    ["Agents", `${up} of ${agents.length}`, "connected"],
    fullest(links),
    ["Flows", String(flows.length), ""],
    ["Pairs probed", String(matrix.cells.length), ""],
    ["Resolution", resolution, "finest that is stored"],
  ];
}

function fullest(links) {
  const load = links.map((link) => link.rate_bits_per_s / link.capacity_bits_per_s);
  return ["Fullest link", load.length ? share(Math.max(...load)) : "–", `${links.filter((link) => !link.up).length} down`];
}
