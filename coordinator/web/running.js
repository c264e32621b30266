// Changes on their way: how far each is, what it waits for, and a person's word to stop it, let it go on or give it up.

import { h, nothing } from "./dom.js";
import { age } from "./units.js";

/** As the coordinator writes them, and as they are called here and in the terminal. */
const PHASES = ["approved", "applying", "verifying", "committed"];
export const CALLED = { proposed: "on offer", offered: "on offer", running: "in progress", committed: "kept", abandoned: "aborted", "rolled-back": "rolled back", "rolling-back": "being rolled back" };
export const called = (kind) => CALLED[kind] ?? kind.replaceAll("-", " ");

/** `steer(generation, how)` of an operator who may change; without it, they are for looking only. */
export function running(steer) {
  const element = h("div", {});
  let shown = new Map();

  /** What is as it was stays where it is: no button goes away under the finger. */
  function heard({ changes: all, generation }) {
    // What is on offer alone does not run: it stands under Changes.
    const changes = all.filter((it) => it.phase !== "proposed");
    const now = new Map(changes.map((change) => [change.generation, still(shown.get(change.generation), change) ?? made(change, steer)]));
    for (const { generation, age_ms } of changes) now.get(generation).since.textContent = age(age_ms);
    const same = now.size && now.size === shown.size && [...now].every(([number, it]) => shown.get(number) === it);
    if (!same) element.replaceChildren(...(now.size ? [...now.values()].map((it) => it.element) : [nothing(`No change in progress; generation ${generation} is in force.`)]));
    shown = now;
  }

  return { element, heard };
}

const essence = ({ age_ms, ...rest }) => JSON.stringify(rest);

const still = (before, change) => (before?.essence === essence(change) ? before : null);

function made(change, steer) {
  const { generation, phase, waiting_for, reasons, stopped_by } = change;
  const since = h("span", {});
  const element = h("div", { role: "group", "aria-label": `Plan ${generation}` },
    h("p", {}, `Plan ${generation}, since `, since), h("ol", { class: "steps" }, steps(phase)),
    stopped_by ? h("p", { class: "warn" }, `Stopped by ${stopped_by}: no further step starts.`) : null,
    reasons.map((words) => h("p", {}, words)),
    waiting_for.length ? h("p", {}, `Waiting for ${waiting_for.join(", ")}`) : null,
    steer ? h("div", { class: "bar" }, words(change).map((it) => order(it, generation, steer))) : null);
  return { element, since, essence: essence(change) };
}

function steps(phase) {
  const at = PHASES.indexOf(phase);
  if (at < 0) return h("li", { class: "now bad" }, called(phase));
  return PHASES.map((name, index) => h("li", { class: index < at ? "done" : index === at ? "now" : "", "aria-current": index === at ? "step" : null }, called(name)));
}

/** What can be said to it now. */
function words({ phase, stopped_by }) {
  return [
    !stopped_by && phase !== "held" ? ["hold", "Hold", "Complete the started steps and start no further one"] : null,
    stopped_by || phase === "held" ? ["resume", "Resume", "Continue, and retry the failed step at once"] : null,
    phase !== "rolling-back" ? ["abort", "Abort", "Abort and roll back its changes without packet loss"] : null,
  ].filter(Boolean);
}

function order([how, name, title], generation, steer) {
  return h("button", { type: "button", title, onclick: () => steer(generation, how) }, `${name} plan ${generation}`);
}
