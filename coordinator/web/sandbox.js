// The sandbox: traffic of the past, flows, a job or a trace of one, played with variants of the cluster, which itself is left alone.

import { Problem, get, post } from "./api.js";
import { comparison } from "./compared.js";
import { h, nothing, panel } from "./dom.js";
import { MOST, NOTHING, keepText, kept } from "./kept.js";
import { linkTo } from "./link.js";
import { goTo } from "./main.js";
import { sourceForm } from "./source.js";
import { clock } from "./units.js";
import { opened, variantCard } from "./variant.js";

/** What mails and chats carry whole. */
const LONGEST_LINK = 32_000;

export function sandbox(known) {
  const found = kept();
  const { variants: tried, ...source } = found ?? NOTHING;
  const form = sourceForm(source, keep);
  const run = h("button", { type: "button", class: "main", onclick: simulate }, "Simulate");
  const stop = h("button", { type: "button", disabled: true, onclick: () => calledOff?.abort() }, "Stop");
  const said = h("p", { class: "said", role: "status" });
  const cards = h("div", { class: "cards abreast" });
  const outcome = h("div", {}, nothing("Simulate to see the results."));
  const file = h("input", { type: "file", multiple: true, accept: ".toml", "aria-label": "Open variants and fabrics from files", onchange: open });
  const more = h("button", { type: "button", onclick: () => add() }, "Add a variant");
  const link = h("input", { class: "wide", readonly: true, hidden: true, "aria-label": "Link to this sandbox" });
  let variants = tried;
  let calledOff = null;

  async function begin() {
    if (!found) said.textContent = "The shared link cannot be read: it may be truncated.";
    const last = known.was ? Date.parse(known.was.at) : source.until ? Date.parse(source.until) : await newest();
    if (last) form.show(last);
    else if (source.kind === "past") said.textContent = "No history yet: it lags by a minute.";
  }

  async function newest() {
    const found = await trying(() => get("/past/spans"));
    return found && Math.max(0, ...found.spans.map(({ to }) => Date.parse(to)));
  }

  function draw() {
    more.disabled = variants.length >= MOST;
    keep();
    cards.replaceChildren(...variants.map((variant) => variantCard(known, variant, { changed: keep, removed: remove, promoted: promote })));
  }

  function keep() {
    link.hidden = true;
    if (!keepText(JSON.stringify({ ...source, variants }))) said.textContent = "Too large to store in this tab: it is lost when you leave the sandbox.";
  }

  /** Everything is in the link; where it can be copied, it is. */
  async function share() {
    const asked = form.asked();
    if (typeof asked === "string") return (said.textContent = asked);
    link.value = linkTo(JSON.stringify({ ...source, ...(asked.to && { until: asked.to }), variants }));
    if (link.value.length > LONGEST_LINK) return (said.textContent = "Too long for a link: save it as files.");
    link.hidden = false;
    link.select();
    const copied = await navigator.clipboard?.writeText(link.value).then(() => true, () => false);
    said.textContent = `${copied ? "Copied." : "Copy this link."} It shows the same to every viewer.`;
  }

  function add(variant = { name: `variant ${variants.length + 1}`, variant: 'recorded = "fabric.toml"\n', files: {} }) {
    variants = [...variants, { ...variant, name: freeName(variants, variant.name) }].slice(-MOST);
    draw();
  }

  function remove(variant) {
    variants = variants.filter((other) => other !== variant);
    draw();
  }

  async function open() {
    const texts = await Promise.all([...file.files].map(async (one) => [one.name, await one.text()]));
    file.value = "";
    for (const variant of opened(texts)) add(variant);
  }

  async function simulate() {
    const asked = form.asked();
    if (typeof asked === "string") return (said.textContent = asked);
    calledOff = new AbortController();
    [run.disabled, stop.disabled] = [true, false];
    said.textContent = "Simulating…";
    const played = await trying(() => post("/sandbox", { ...asked, variants }, calledOff.signal));
    [run.disabled, stop.disabled] = [false, true];
    if (!played) return;
    const stretch = asked.from ? ` from ${clock(Date.parse(asked.from))} to ${clock(Date.parse(asked.to))}` : "";
    said.textContent = `Played${stretch}; the cluster was not changed.`;
    outcome.replaceChildren(comparison(played));
  }

  async function promote(variant, place) {
    const answer = await trying(() => post("/sandbox/plan", { variant: variant.variant }));
    if (!answer) return place.replaceChildren(h("p", { class: "bad" }, said.textContent));
    place.replaceChildren(answer.plan
      ? h("p", {}, `Plan ${answer.plan.generation} is on offer. `, h("button", { type: "button", onclick: () => goTo("changes", answer.plan.generation) }, "Review it under Changes"))
      : nothing("No change needed for that."));
  }

  async function trying(work) {
    try {
      return await work();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      said.textContent = calledOff?.signal.aborted ? "Stopped." : problem.message;
      return null;
    }
  }

  draw();
  begin();
  return {
    element: h("div", {},
      panel("Input", h("div", { class: "bar" }, form.kind, run, stop, h("button", { type: "button", onclick: share }, "Share")), form.place, link, said),
      panel("Side by side", outcome), panel("Variants", h("div", { class: "bar" }, more, file), cards)),
    heard() {},
    leave: () => calledOff?.abort(),
  };
}

/** Answers are distinguished by their names. */
function freeName(variants, name) {
  const taken = new Set(variants.map((it) => it.name));
  let free = name;
  for (let nth = 2; taken.has(free); nth += 1) free = `${name} (${nth})`;
  return free;
}
