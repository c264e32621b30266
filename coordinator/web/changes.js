// A plan, looked at and approved; the changes that are running; and what became of those before.

import { Problem, get, post } from "./api.js";
import { chip, h, nothing, panel, table } from "./dom.js";
import { age, clock, flowsByName, rate } from "./units.js";
import { ms, reviewed } from "./review.js";
import { policy } from "./policy.js";
import { called, running } from "./running.js";

const CHANGED = 412;
const KIND = { committed: "good", offered: "warn", running: "warn", "rolled-back": "bad", abandoned: "warn", held: "bad" };

/** With `asked`, the number of a plan on offer, that one is shown. */
export function changes(known, asked) {
  const refusal = h("div", { role: "alert" });
  const review = h("div", { tabindex: "-1", role: "group", "aria-label": "Shown plan" }, nothing("Make a plan, or review one that is on offer."));
  const past = h("div", {});
  const audit = h("div", {});
  const mayChange = known.me.role === "operator";
  let lastSeen = null;
  let listed = [];

  const name = () => flowsByName(known.status);
  const show = (plan, not_seen) => reviewed(plan, not_seen, name(), mayChange && approve);
  let newest = 0;

  /** Of several things asked for, the last is shown, whichever is answered last; until then nothing can be approved. */
  async function reviewing(work) {
    newest += 1;
    const mine = newest;
    review.inert = true;
    const shown = h("div", {});
    await trying(shown, async () => shown.replaceChildren(...(await work())));
    if (mine !== newest) return;
    review.replaceChildren(...shown.childNodes);
    review.inert = false;
    // A reader who asked for it by keys goes on there.
    review.focus({ preventScroll: true });
    review.scrollIntoView({ block: "nearest" });
  }

  /** A form that makes a plan puts it on offer. */
  const offer = (path, otherwise, wish) => reviewing(async () => {
    const { plan, not_seen } = await post(path, wish);
    list();
    return [plan ? show(plan, not_seen) : nothing([otherwise, ...not_seen.doubts].join(" "))];
  });

  const plan = () => offer("/plans", "No improvement found.");

  const circuits = () => offer("/plans", "No change needed.", { circuits: {} });

  const takeBack = (generation) => offer(`/history/${generation}/taking-back`, "No change needed: the earlier state is already in force.");

  const offered = async (generation) => show(await get(`/plans/${generation}`), null);

  const open = (generation) => reviewing(async () => [await offered(generation)]);

  /** What is shown, and nothing else: what has changed meanwhile is shown again. */
  const approve = ({ generation, seal }, insisting) => reviewing(async () => {
    try {
      await post(`/plans/${generation}/approval${insisting}`, null, null, { "If-Match": `"${seal}"` });
    } catch (problem) {
      if (problem.status !== CHANGED) throw problem;
      return [h("p", { class: "warn", role: "alert" }, problem.message), await offered(generation)];
    }
    list();
    return [nothing(`Plan ${generation} is being applied.`)];
  });

  async function steer(generation, how) {
    refusal.replaceChildren();
    await trying(refusal, () => post(`/plans/${generation}/${how}`));
    list();
  }

  const underway = running(mayChange && steer);
  const rules = policy(mayChange);

  async function list() {
    await trying(past, async () => {
      const { history } = await get("/history");
      const does = { open, takeBack: mayChange && takeBack, steer: mayChange && steer };
      const heardAt = Date.now();
      listed = history.map((one) => ({ ...record(one, name(), does), began: heardAt - one.age_ms }));
      past.replaceChildren(listed.length ? h("div", { class: "cards" }, listed.map((it) => it.element)) : nothing("No changes yet."));
      tick();
    });
  }

  /** What stands still otherwise grows older all the same. */
  function tick() {
    for (const { since, began } of listed) since.textContent = age(Math.max(0, Date.now() - began));
  }

  async function look() {
    await trying(audit, async () => audit.replaceChildren(asks((await get("/audit")).audit)));
  }

  function heard() {
    const { changes, generation } = known.status;
    underway.heard(known.status);
    rules.heard();
    tick();
    const seen = JSON.stringify([changes.map((it) => [it.generation, it.phase]), generation]);
    if (seen !== lastSeen) list();
    lastSeen = seen;
  }

  if (asked) open(asked);
  const bar = h("div", { class: "bar" },
    h("button", { type: "button", class: "main", disabled: !mayChange, onclick: plan }, "Make a plan"),
    known.status.opticals.length ? h("button", { type: "button", disabled: !mayChange, onclick: circuits }, "Choose circuits") : null,
    mayChange ? null : h("small", {}, "Read-only for a viewer; an operator may change."));
  return { element: h("div", {}, panel("Running changes", underway.element, refusal), panel("Plan", bar, review), panel("Changes", past), mayChange ? panel("Audit log", h("div", { class: "bar" }, h("button", { type: "button", onclick: look }, "Show")), audit) : null, panel("Policy", rules.element)), heard };
}

/** The newest first; what was refused stands out. */
function asks(all) {
  if (!all.length) return nothing("No requests yet.");
  return table("Requests to this coordinator", ["when", "who", "what", "", "why"],
    all.map((it) => [clock(Date.parse(it.at)), it.who, it.times > 1 ? `${it.what} (${it.times} times)` : it.what, chip(it.outcome, it.outcome === "done" ? "good" : "bad"), it.why ?? ""]));
}

async function trying(place, work) {
  try {
    await work();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    place.replaceChildren(h("p", { class: "bad" }, problem.message));
  }
}

const timed = (it) => [it.job, ms(it.before_ms), it.predicted_ms.map(ms).join(" – "), it.measured_ms === null ? "–" : ms(it.measured_ms)];

function record({ plan, outcome, approved_by, proposed_by, flows, iterations }, name, { open, takeBack, steer }) {
  const [kind, detail] = typeof outcome === "string" ? [outcome, {}] : Object.entries(outcome)[0];
  const since = h("span", {});
  const element = h("article", { class: "card" },
    h("h3", {}, chip(called(kind), KIND[kind] ?? ""), ` Plan ${plan.generation}`, h("small", {}, " ", since, ` ago, by ${approved_by ?? proposed_by}`)),
    (detail.reasons ?? []).map((words) => h("p", {}, words)),
    flows.length ? table("Predicted and measured", ["flow", "before", "predicted", "measured", "result"], flows.map((it) => [
      name(it.flow), rate(it.before_bits_per_s), it.predicted_bits_per_s ? it.predicted_bits_per_s.map(rate).join(" – ") : "–", rate(it.measured_bits_per_s), it.change,
    ]), [1, 2, 3]) : null,
    iterations.length ? table("Iterations of jobs", ["job on", "before", "predicted", "measured"], iterations.map(timed), [1, 2, 3]) : null,
    kind === "offered" ? h("div", { class: "bar" },
      h("button", { type: "button", onclick: () => open(plan.generation) }, `Review plan ${plan.generation}`),
      h("button", { type: "button", disabled: !steer, onclick: () => steer(plan.generation, "abort") }, `Withdraw plan ${plan.generation}`)) : null,
    kind === "committed" ? h("button", { type: "button", disabled: !takeBack, onclick: () => takeBack(plan.generation) }, `Roll plan ${plan.generation} back`) : null);
  return { element, since };
}
