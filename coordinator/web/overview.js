// What is wrong first, then how much of everything there is.

import { h, nothing, panel } from "./dom.js";
import { findingCards } from "./findings.js";
import { tileRow, tilesNow } from "./tiles.js";
import { atAGlance } from "./troubles.js";
import { flowsByName, hostsByAddress } from "./units.js";

export function overview(known) {
  const words = h("div", {});
  const found = h("div", {});
  const tiles = tileRow();

  function heard() {
    const { status } = known;
    words.replaceChildren(troubles(status, known.findings.findings));
    // A reader who opened a long list goes on reading it.
    const opened = [...found.querySelectorAll("details")].map((it) => it.open);
    found.replaceChildren(findingCards(known.findings, flowsByName(status), hurt(known)));
    [...found.querySelectorAll("details")].forEach((it, index) => { it.open = opened[index] ?? false; });
    tiles.show(tilesNow(status));
  }

  return { element: h("div", {}, panel("Attention", words), panel("Findings", found), panel("The cluster", tiles.element)), heard };
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
