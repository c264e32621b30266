// Who measures and who decides, and the NICs of hosts; those in trouble first.

import { Problem, get } from "./api.js";
import { chip, h, nothing, panel, table } from "./dom.js";
import { age, rate } from "./units.js";

const KIND = { up: "good", leads: "good", follows: "good", learns: "warn", silent: "bad", down: "bad", unseen: "bad" };
const MOST = 300;
const NICS_EVERY_MS = 5000;

export function agents(known) {
  const coordinators = h("div", {});
  const list = h("div", {});
  const refused = h("div", {});
  const nics = h("div", {}, nothing("No answer yet."));
  let asking = false;

  async function load() {
    if (asking) return;
    asking = true;
    try {
      nics.replaceChildren(tableOf((await get("/nics")).nics));
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      nics.replaceChildren(nothing(problem.message));
    } finally {
      asking = false;
    }
  }

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

  load();
  const timer = setInterval(load, NICS_EVERY_MS);
  return {
    element: h("div", {}, panel("Coordinators", coordinators), panel("Agents", list), panel("NICs", nics), panel("Refused peers", refused)),
    heard,
    leave: () => clearInterval(timer),
  };
}

/** Those that are down come first. */
function tableOf(nics) {
  if (!nics.length) return nothing("No host has a NIC.");
  const isDown = (nic) => nic.up === false;
  return table(`${nics.length} NICs`, ["host", "NIC", "rail", "use", "state", "link", "address", "GPU", "sends", "receives"],
    [...nics].sort((a, b) => isDown(b) - isDown(a)).slice(0, MOST).map((nic) => [
      nic.host, nic.interface ?? "–", nic.rail, nic.use, state(nic), nic.link, nic.address ?? "–", gpu(nic), rate(nic.sent_bits_per_s), rate(nic.received_bits_per_s),
    ]), [2, 8, 9]);
}

function state({ up }) {
  if (up === null) return chip("unknown", "warn");
  return up ? chip("up", "good") : chip("down", "bad");
}

/** The GPU of the fabric file, else those that are nearest. */
function gpu({ gpu, gpus }) {
  return gpu ?? (gpus.map((near) => near.index).join(", ") || "–");
}

function trouble(agent) {
  return (agent.state !== "up" ? 2 : 0) + (agent.known_links < agent.links ? 1 : 0);
}

const life = (seconds) => (seconds === null || seconds === undefined ? "–" : age(seconds * 1000));
const skew = (ms) => (ms === null || ms === undefined ? "–" : `${ms > 0 ? "+" : ""}${ms} ms`);
