// What is wrong first, then how much of everything there is.

import { h, nothing, panel } from "./dom.js";
import { findingCards } from "./findings.js";
import { atAGlance } from "./troubles.js";
import { age, flowsByName, hostsByAddress, micros, rate, share } from "./units.js";

export function overview(known) {
  const words = h("div", {});
  const found = h("div", {});
  const tiles = h("dl", { class: "tiles" });

  function heard() {
    const { status } = known;
    words.replaceChildren(troubles(status, known.findings.findings));
    // Whoever opened a long list goes on reading it.
    const opened = [...found.querySelectorAll("details")].map((it) => it.open);
    found.replaceChildren(findingCards(known.findings, flowsByName(status), hurt(known)));
    [...found.querySelectorAll("details")].forEach((it, index) => { it.open = opened[index] ?? false; });
    tiles.replaceChildren(...figures(status).map(([title, value, note]) =>
      h("div", {}, h("dt", {}, title), h("dd", {}, value, h("small", {}, note)))));
  }

  return { element: h("div", {}, panel("Attention", words), panel("Findings", found), panel("The cluster", tiles)), heard };
}

/** Whose flows these are. */
function hurt({ status, jobs }) {
  const host = hostsByAddress(status);
  return (flows) => {
    const ends = new Set(flows.flatMap(({ source, destination }) => [host(source), host(destination)]));
    return (jobs ?? []).filter((job) => job.hosts.some((name) => ends.has(name))).map((job) => job.job);
  };
}

function troubles({ alarms, warnings, waits_because, changes }, findings) {
  const found = atAGlance(findings);
  const offers = changes.filter((it) => it.phase === "proposed");
  const lines = [
    ...alarms.map((text) => h("li", { class: "bad" }, text)),
    found ? h("li", { class: "bad" }, found) : null,
    ...offers.map((it) => h("li", { class: "warn" }, `Plan ${it.generation} is on offer: review it under Changes`)),
    ...warnings.map((text) => h("li", { class: "warn" }, text)),
    waits_because ? h("li", {}, `No change in progress: ${waits_because}`) : null,
  ].filter(Boolean);
  return lines.length ? h("ul", { class: "troubles" }, lines) : nothing("No alarms.");
}

function figures({ agents, links, flows, probes, flow_imbalance, coordinators }) {
  const up = agents.filter((agent) => agent.state === "up").length;
  const load = links.map((link) => link.rate_bits_per_s / link.capacity_bits_per_s);
  const slowest = Math.min(...flows.map((flow) => flow.rate_bits_per_s));
  const summary = probes.all;
  const oldest = Math.max(0, ...agents.map((agent) => agent.age_ms ?? 0));
  const voters = coordinators.filter((one) => one.state === "leads" || one.state === "follows").length;
  return [
    ["Agents", `${up} of ${agents.length}`, up ? `oldest report ${age(oldest)}` : ""],
    ["Coordinators", `${voters} of ${coordinators.length}`, coordinators.find((one) => one.state === "leads")?.name ?? "no leader"],
    ["Fullest link", load.length ? share(Math.max(...load)) : "–", `${links.filter((link) => !link.up).length} down`],
    ["Flows", String(flows.length), flows.length ? `slowest ${rate(slowest)}` : ""],
    ["Latency", micros(summary?.network_us?.median), `p99 ${micros(summary?.network_us?.p99)}`],
    ["Loss", summary?.sent ? share(summary.lost / summary.sent) : "–", `${probes.pairs} pairs probed`],
    ["Imbalance", flow_imbalance ? `${flow_imbalance.mean_fim_percent.toFixed(0)} %` : "–", "of flows over equivalent links"],
  ];
}
