// The page: one view at a time, redrawn whenever the cluster's state is heard.

import { Problem, follow, get } from "./api.js";
import { h, panel } from "./dom.js";
import { token } from "./link.js";
import { agents } from "./agents.js";
import { changes } from "./changes.js";
import { elsewhere, goesTo } from "./elsewhere.js";
import { fabric } from "./fabric.js";
import { flows } from "./flows.js";
import { jobs } from "./jobs.js";
import { matrix } from "./matrix.js";
import { overview } from "./overview.js";
import { scrubber } from "./past.js";
import { called } from "./running.js";
import { sandbox } from "./sandbox.js";
import { onlyNow, then } from "./then.js";
import { atAGlance } from "./troubles.js";

/** Each with what shows it as it was. */
const VIEWS = [
  ["overview", "Overview", overview, then],
  ["fabric", "Fabric", fabric, fabric],
  ["matrix", "Matrix", matrix, matrix],
  ["flows", "Flows", flows, flows],
  ["jobs", "Jobs", jobs, onlyNow("Jobs")],
  ["changes", "Changes", changes, onlyNow("Changes")],
  ["agents", "Agents", agents, onlyNow("Agents")],
  ["sandbox", "Sandbox", sandbox, sandbox],
];
const AGAIN_AFTER_MS = 1000;
const DIAGNOSED_EVERY_MS = 2000;
const NOT_LEADING = "urn:reweave:not-leading";
/** How many requests in a row stay unanswered before the reader is sent elsewhere. */
const MISSED = 3;

/** All that views know: what was heard last, and what was asked once. */
const known = { status: null, fabric: null, me: null, findings: null, jobs: [], was: null };
const past = scrubber(shows);

const element = (id) => document.getElementById(id);
let current = null;
let missed = 0;

function tab([name, title], index) {
  return h("button", {
    role: "tab", type: "button", id: `tab-${name}`, "aria-controls": "view",
    "aria-selected": "false", tabindex: "-1", title: `${title} (${index + 1})`,
    onclick: () => goTo(name),
  }, title);
}

export function goTo(name, argument) {
  const view = VIEWS.find(([known]) => known === name) ?? VIEWS[0];
  for (const [other] of VIEWS) {
    const selected = other === view[0];
    element(`tab-${other}`).setAttribute("aria-selected", selected);
    element(`tab-${other}`).tabIndex = selected ? 0 : -1;
  }
  element("view").setAttribute("aria-labelledby", `tab-${view[0]}`);
  sessionStorage.setItem("reweave-view", view[0]);
  current?.leave?.();
  current = view[known.was ? 3 : 2](known, argument);
  element("view").replaceChildren(current.element);
  if (known.was || known.status) current.heard();
}

function state(words, kind) {
  element("state").replaceChildren(h("span", { class: `chip ${kind}`, title: words }, words));
}

/** What is wrong first, in a word or two. */
function sayState() {
  const { alarms, warnings, changes, generation, mode } = known.status;
  const found = atAGlance(known.findings?.findings ?? []);
  const [offers, doing] = [true, false].map((isOffer) => changes.filter((it) => (it.phase === "proposed") === isOffer).map((it) => `plan ${it.generation} ${called(it.phase)}`));
  const several = (count, word) => (count ? `${count} ${word}${count > 1 ? "s" : ""}` : null);
  const wrong = [several(alarms.length, "alarm"), found, several(warnings.length, "warning"), ...offers].filter(Boolean);
  const words = [...(wrong.length ? wrong : ["no alarms"]), `generation ${generation}, ${mode}`, ...doing].join(" · ");
  state((known.was ? "now: " : "") + words, alarms.length ? "bad" : wrong.length ? "warn" : "good");
}

/** A moment as it was, or null for what is. */
function shows(was) {
  const turns = (known.was === null) !== (was === null);
  known.was = was;
  document.body.classList.toggle("then", was !== null);
  if (known.status) sayState();
  if (turns) goTo(sessionStorage.getItem("reweave-view"));
  else current?.heard();
}

function heard(event, value) {
  if (event === "trouble") {
    state(value.detail, "bad");
    return lookElsewhere(new Problem(value));
  }
  known.status = value;
  missed = 0;
  element("elsewhere").replaceChildren();
  sayState();
  if (!known.was) current?.heard();
}

/** The coordinator looks for what is wrong when it is asked; a view without an answer keeps the last. */
async function diagnose() {
  try {
    if (!current) return;
    const findings = await get("/findings");
    const collides = findings.findings.some((it) => it["ecmp-collision"]);
    known.jobs = collides ? (await get("/jobs")).jobs : [];
    known.findings = findings;
    if (!known.status) return;
    sayState();
    if (!known.was) current?.heard();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
  }
}

/** A reader without a link, or with one that is used up, is shown how to have one; all else may pass. */
function explain(problem) {
  const words = problem.status !== 401 ? problem.message
    : token ? "This link is invalid or has expired. `reweave dashboard` makes a new one; open it in this tab."
    : "This page needs a personal link. `reweave dashboard`, on the machine with your certificate, makes one; open it in this tab.";
  state(problem.status !== 401 ? problem.message : token ? "the link is invalid" : "a link is needed", "bad");
  element("view").replaceChildren(panel("Not connected", h("p", {}, words)));
}

/** An election takes a second. A link that is not followed by itself is shown. */
function lookElsewhere(problem) {
  if (problem.status && problem.kind !== NOT_LEADING) return;
  missed += 1;
  if (!problem.leader && missed < MISSED) return;
  const link = goesTo(problem);
  if (link) return location.assign(link);
  element("elsewhere").replaceChildren(elsewhere(problem, known.status?.coordinators ?? []) ?? "");
}

async function live() {
  for (;;) {
    try {
      known.me ??= await get("/me");
      known.fabric ??= await get("/fabric");
      if (!known.findings) {
        known.findings = await get("/findings");
        known.jobs = (await get("/jobs")).jobs;
      }
      if (!current) goTo(sessionStorage.getItem("reweave-view"));
      await follow("/events", heard);
      state("connecting again", "warn");
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      if (problem.status === 401 || !current) {
        current = null;
        explain(problem);
      } else {
        state(problem.message, "bad");
      }
      if (problem.status === 401) return;
      lookElsewhere(problem);
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_AFTER_MS));
  }
}

function step(by) {
  const index = VIEWS.findIndex(([name]) => element(`tab-${name}`).tabIndex === 0);
  const [name] = VIEWS[(index + by + VIEWS.length) % VIEWS.length];
  goTo(name);
  element(`tab-${name}`).focus();
}

function changeTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const shown = document.documentElement.dataset.theme ?? (dark ? "dark" : "light");
  const other = shown === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = other;
  localStorage.setItem("reweave-theme", other);
  current?.heard();
}

/** Where letters and digits are its own: a slider or a box to tick has none. */
const writes = ({ tagName, type }) => /^(SELECT|TEXTAREA)$/.test(tagName) || (tagName === "INPUT" && !/^(range|checkbox)$/.test(type));

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || !current) return;
  if (event.key === "Escape" && past.isOpen()) return past.close();
  if (writes(event.target)) return;
  const view = VIEWS[Number(event.key) - 1];
  if (view) goTo(view[0]);
  else if (event.key === "d") changeTheme();
  else if (event.key === "t") past.open();
  else if (event.target.role === "tab" && event.key === "ArrowRight") step(1);
  else if (event.target.role === "tab" && event.key === "ArrowLeft") step(-1);
}

const theme = localStorage.getItem("reweave-theme");
if (theme) document.documentElement.dataset.theme = theme;
element("tabs").replaceChildren(...VIEWS.map(tab));
element("theme").addEventListener("click", changeTheme);
element("lookback").addEventListener("click", past.open);
element("time").replaceChildren(past.element);
addEventListener("keydown", onKey);
setInterval(diagnose, DIAGNOSED_EVERY_MS);
live();
