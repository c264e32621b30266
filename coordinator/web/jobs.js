// Jobs: what an iteration takes, what changes promised them and what came of it, and work on switches.

import { Problem, get } from "./api.js";
import { chip, h, nothing, panel, table } from "./dom.js";
import { age, flowsByName, micros, rate, share } from "./units.js";

const EVERY_MS = 2000;

export function jobs(known) {
  const seen = h("div", {});
  const listed = h("div", {});
  const promised = h("div", {});
  const work = h("div", {});
  let asking = false;

  async function load() {
    if (asking) return;
    asking = true;
    try {
      const [{ jobs, registered }, { history }] = await Promise.all([get("/jobs"), get("/history")]);
      seen.replaceChildren(seenJobs(jobs));
      listed.replaceChildren(registeredJobs(registered));
      promised.replaceChildren(kept(history, flowsByName(known.status)));
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      seen.replaceChildren(h("p", { class: "bad" }, problem.message));
    } finally {
      asking = false;
    }
  }

  function heard() {
    const { maintenance, frozen } = known.status;
    work.replaceChildren(maintenance.length
      ? table("Work on switches", ["switch", "stage", "links", "by", "since", "remaining traffic"], maintenance.map((it) => [it.name, chip(it.stage, "warn"), it.links.join(", "), it.by, age(it.age_ms), it.not_empty.join("; ") || "nothing"]))
      : nothing("No switch is under maintenance."),
      frozen.length ? table("Frozen jobs", ["hosts", "by", "since"], frozen.map((it) => [it.hosts.join(", "), it.by, age(it.age_ms)])) : "");
  }

  load();
  const timer = setInterval(load, EVERY_MS);
  return {
    element: h("div", {}, panel("Jobs seen in traffic", seen), panel("Registered jobs", listed), panel("Predicted and achieved", promised), panel("Maintenance", work)),
    heard,
    leave: () => clearInterval(timer),
  };
}

function seenJobs(jobs) {
  if (!jobs.length) return nothing("No large flows between hosts now.");
  return table(`${several(jobs)}, by rate`, HEADINGS, jobs.map(row), [1, 2, 3, 4, 5]);
}

const several = (jobs) => (jobs.length === 1 ? "1 job" : `${jobs.length} jobs`);

const HEADINGS = ["job", "iteration", "at rest", "rate", "slowest flow", "flows sending", "promised by", "promised", "has now"];

function row(job) {
  const { promise } = job;
  return [
    job.job, job.iteration_ms === null ? "–" : micros(job.iteration_ms * 1000), share(job.rest_share), rate(job.rate_bits_per_s), rate(job.slowest_bits_per_s), `${job.sending} of ${job.flows}`,
    promise ? `plan ${promise.generation}` : "–", promise ? promise.predicted_bits_per_s.map(rate).join(" – ") : "–", promise ? achieved(promise) : "–",
  ];
}

function achieved({ predicted_bits_per_s: [least], achieved_bits_per_s }) {
  return chip(rate(achieved_bits_per_s), achieved_bits_per_s < least ? "bad" : "good");
}

function registeredJobs(registered) {
  if (!registered.length) return nothing("No registered jobs.");
  return table(several(registered), ["job", "hosts", "phase", "registered by", "since", "silent for"],
    registered.map((job) => [job.job, job.hosts.join(", "), job.phase?.name ?? "–", job.by, age(job.age_ms), age(job.silent_ms)]), [4, 5]);
}

/** What changes promised to flows, and what was measured afterwards. */
function kept(history, name) {
  const rows = history.flatMap(({ plan, flows, ended_age_ms }) => flows.filter((it) => it.predicted_bits_per_s).map((it) => [
    `plan ${plan.generation}`, ended_age_ms === null ? "runs" : `${age(ended_age_ms)} ago`, name(it.flow),
    rate(it.before_bits_per_s), it.predicted_bits_per_s.map(rate).join(" – "), rate(it.measured_bits_per_s), it.change,
  ]));
  return rows.length ? table("By change, the newest first", ["change", "ended", "flow", "before", "predicted", "achieved", "result"], rows.slice(0, MOST), [3, 4, 5]) : nothing("No change with a predicted rate yet.");
}

const MOST = 100;
