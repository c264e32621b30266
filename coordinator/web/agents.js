// Who measures and who decides, those in trouble first.

import { chip, h, nothing, panel, table } from "./dom.js";
import { age } from "./units.js";

const KIND = { up: "good", leads: "good", follows: "good", learns: "warn", silent: "bad", down: "bad", unseen: "bad" };
const MOST = 300;

export function agents(known) {
  const coordinators = h("div", {});
  const list = h("div", {});
  const refused = h("div", {});

  function heard() {
    const { status } = known;
    coordinators.replaceChildren(table("Coordinators", ["name", "state", "address", "term", "behind", "build", "certificate", "clock"],
      status.coordinators.map((one) => [
        one.name, chip(one.state, KIND[one.state]), one.address, one.term ?? "–", one.behind ?? "–", one.build ?? "–", life(one.certificate_left_s), skew(one.clock_skew_ms),
      ]), [3, 4, 6, 7]));
    list.replaceChildren(table(`${status.agents.length} agents`, ["node", "state", "last report", "generation", "links known", "build", "certificate", "clock"],
      [...status.agents].sort((a, b) => trouble(b) - trouble(a)).slice(0, MOST).map((one) => [
        one.node, chip(one.state, KIND[one.state]), age(one.age_ms), one.generation ?? "–", `${one.known_links} of ${one.links}`, one.build ?? "–", life(one.certificate_left_s), skew(one.clock_skew_ms),
      ]), [2, 3, 4, 6, 7]));
    refused.replaceChildren(status.refused.length
      ? table("Refused peers", ["from", "why", "times", "last"], status.refused.map((one) => [one.from, one.why, one.times, age(one.age_ms)]), [2, 3])
      : nothing("No refused peers lately."));
  }

  return { element: h("div", {}, panel("Coordinators", coordinators), panel("Agents", list), panel("Refused peers", refused)), heard };
}

function trouble(agent) {
  return (agent.state !== "up" ? 2 : 0) + (agent.known_links < agent.links ? 1 : 0);
}

const life = (seconds) => (seconds === null || seconds === undefined ? "–" : age(seconds * 1000));
const skew = (ms) => (ms === null || ms === undefined ? "–" : `${ms > 0 ? "+" : ""}${ms} ms`);
