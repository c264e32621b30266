// A plan, looked at and approved; the changes that are running; and what became of those before.

import { Problem, get, post } from "./api.js";
import { chip, h, nothing, panel, table } from "./dom.js";
import { findingCards } from "./findings.js";
import { age, flowsByName, micros, rate } from "./units.js";

const PHASES = ["proposed", "approved", "applying", "verifying", "committed"];
const KIND = { committed: "good", offered: "warn", running: "warn", "rolled-back": "bad", abandoned: "warn", held: "bad" };

export function changes(known) {
  const running = h("div", {});
  const review = h("div", {}, nothing("Ask for a plan to see what would mend the cluster."));
  const past = h("div", {});
  const mayChange = known.me.role === "operator";
  const asked = h("button", { type: "button", class: "main", disabled: !mayChange, onclick: plan }, "Make a plan");
  let lastSeen = null;

  async function plan() {
    await trying(review, async () => {
      const { plan, not_seen } = await post("/plans");
      review.replaceChildren(plan ? reviewed(plan, not_seen, flowsByName(known.status), mayChange && approve) : nothing("There is nothing to mend, or no way to mend it, as far as can be seen."));
    });
  }

  async function approve(generation) {
    await trying(review, async () => {
      await post(`/plans/${generation}/approval`);
      review.replaceChildren(nothing(`Plan ${generation} is being carried out.`));
    });
  }

  async function list() {
    await trying(past, async () => {
      const { history } = await get("/history");
      past.replaceChildren(history.length ? h("div", { class: "cards" }, history.map((one) => record(one, flowsByName(known.status)))) : nothing("Nothing was changed yet."));
    });
  }

  function heard() {
    const { changes, generation } = known.status;
    running.replaceChildren(...(changes.length ? changes.map(progress) : [nothing(`Nothing is being changed; generation ${generation} is in force.`)]));
    const seen = JSON.stringify([changes.map((it) => [it.generation, it.phase]), generation]);
    if (seen !== lastSeen) list();
    lastSeen = seen;
  }

  const bar = h("div", { class: "bar" }, asked, mayChange ? null : h("small", {}, "A viewer may look; an operator may change."));
  return { element: h("div", {}, panel("Running changes", running), panel("Plan", bar, review), panel("Changes", past)), heard };
}

async function trying(place, work) {
  try {
    await work();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    place.replaceChildren(h("p", { class: "bad" }, problem.message));
  }
}

function progress({ generation, phase, waiting_for, age_ms }) {
  const at = PHASES.indexOf(phase);
  const steps = at >= 0
    ? PHASES.map((name, index) => h("li", { class: index < at ? "done" : index === at ? "now" : "", "aria-current": index === at ? "step" : null }, name))
    : [h("li", { class: "now bad" }, phase)];
  return h("div", {}, h("p", {}, `Plan ${generation}, since ${age(age_ms)}`), h("ol", { class: "steps" }, steps),
    waiting_for.length ? h("p", {}, `Waiting for ${waiting_for.join(", ")}`) : null);
}

/** Without `approve`, it is for looking only. */
function reviewed(plan, not_seen, name, approve) {
  const { report, predictions, iterations, moves, generation, parent } = plan;
  return h("div", { class: "review" },
    h("p", {}, `Plan ${generation}, upon ${parent}: the slowest flow goes from ${rate(report.slowest_before_bits_per_s)} to ${rate(report.slowest_after_bits_per_s)}.`),
    table("What changes", ["flow", "now over", "then over"], moves.map((move) => [name(move.flow), hop(move.from), hop(move.to)])),
    table("What it promises", ["flow", "now", "then", "within"], predictions.map((it) => promised(it, name)), [1, 2, 3]),
    iterations.length ? table("What jobs are promised", ["iterations of the job on", "now", "then", "within"], iterations.map(awaited), [1, 2, 3]) : null,
    touched(plan),
    h("details", {}, h("summary", {}, "Why"), findingCards({ findings: report.findings, not_seen }, name), lost(report.alternatives, name)),
    h("button", { type: "button", class: "main", disabled: !approve, onclick: () => approve(generation) }, `Approve plan ${generation}`));
}

/** Whose flows it moves or slows; and why it may not be carried out just now. */
function touched({ touched: jobs, hindered_by }) {
  return [
    jobs.length ? table("Whom it touches", ["job", "flows moved", "flows slowed", "of"], jobs.map((it) => [it.job, String(it.moved), String(it.slowed), String(it.flows)]), [1, 2, 3]) : nothing("It touches no job."),
    hindered_by.map((words) => h("p", { class: "warn" }, words)),
  ];
}

const hop = ({ from, to, link }) => `${from} → ${to} (${link})`;

function promised(it, name) {
  return [name(it.flow), rate(it.before_bits_per_s), rate(it.after_bits_per_s), `${rate(it.low_bits_per_s)} – ${rate(it.high_bits_per_s)}`];
}

const ms = (value) => micros(1000 * value);

const awaited = (it) => [it.job, ms(it.before_ms), ms(it.after_ms), `${ms(it.low_ms)} – ${ms(it.high_ms)}`];

const timed = (it) => [it.job, ms(it.before_ms), it.predicted_ms.map(ms).join(" – "), it.measured_ms === null ? "–" : ms(it.measured_ms)];

function lost(alternatives, name) {
  if (!alternatives.length) return nothing("Nothing else was weighed.");
  return table("What lost", ["moves", "slowest flow then", "because"],
    alternatives.map((one) => [one.moves.map((move) => `${name(move.flow)} to ${hop(move.to)}`).join("; ") || "nothing", rate(one.slowest_after_bits_per_s), reason(one.lost_because)]), [1]);
}

const reason = (value) => (typeof value === "string" ? value : Object.keys(value)[0]).replaceAll("-", " ");

function record({ plan, outcome, approved_by, proposed_by, age_ms, flows, iterations }, name) {
  const [kind, detail] = typeof outcome === "string" ? [outcome, {}] : Object.entries(outcome)[0];
  return h("article", { class: "card" },
    h("h3", {}, chip(kind.replaceAll("-", " "), KIND[kind] ?? ""), ` Plan ${plan.generation}`, h("small", {}, ` ${age(age_ms)} ago, by ${approved_by ?? proposed_by}`)),
    (detail.reasons ?? []).map((words) => h("p", {}, words)),
    flows.length ? table("Promised and measured", ["flow", "before", "promised", "measured", "so it is"], flows.map((it) => [
      name(it.flow), rate(it.before_bits_per_s), it.predicted_bits_per_s ? it.predicted_bits_per_s.map(rate).join(" – ") : "–", rate(it.measured_bits_per_s), it.change,
    ]), [1, 2, 3]) : null,
    iterations.length ? table("Iterations of jobs", ["job on", "before", "promised", "measured"], iterations.map(timed), [1, 2, 3]) : null);
}
