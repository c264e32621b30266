// The scrubber: drag to a moment, and the views show what was then, until the reader goes back to now.

import { Problem, get } from "./api.js";
import { h } from "./dom.js";
import { age, clock } from "./units.js";

const SPANS_EVERY_MS = 5000;
const SECOND = 1000;
/** What the slider may reach, before what is finest is worth looking at alone. */
const STRETCHES = [["5 min", 5 * 60], ["1 hour", 3600], ["1 day", 86400], ["all", Infinity]];

/** `shows(was)` gets what is to be seen: a moment as it was, or null for now. */
export function scrubber(shows) {
  const slider = h("input", { type: "range", id: "moment", step: SECOND, "aria-label": "Moment of the past", oninput: () => look(Number(slider.value)) });
  const stretch = h("select", { "aria-label": "How far back", onchange: () => reach() },
    STRETCHES.map(([words, seconds], index) => h("option", { value: seconds, selected: index === 1 }, words)));
  const said = h("p", { class: "when", role: "status", "aria-live": "polite" });
  const back = h("button", { type: "button", class: "main", onclick: close, title: "Back to now (Esc)" }, "Back to now");
  const element = h("section", { id: "past", class: "past", "aria-label": "The past", hidden: true }, said, slider, stretch, back);
  let spans = [];
  let wanted = null;
  let asking = false;
  let timer = 0;

  async function open() {
    if (!element.hidden) return slider.focus();
    element.hidden = false;
    said.textContent = "Loading the history…";
    await reach();
    timer = setInterval(reach, SPANS_EVERY_MS);
    slider.focus();
  }

  function close() {
    clearInterval(timer);
    element.hidden = true;
    wanted = null;
    shows(null);
  }

  /** What there is to reach, which grows. */
  async function reach() {
    const found = await tried(() => get("/past/spans"));
    if (!found || element.hidden) return;
    spans = found.spans.map(({ from, to }) => [Date.parse(from), Date.parse(to)]);
    slider.disabled = !spans.length;
    if (!spans.length) return (said.textContent = "No history yet: it lags by a minute.");
    const last = Math.max(...spans.map(([, to]) => to)) - SECOND;
    const first = Math.min(...spans.map(([from]) => from));
    slider.min = Math.max(first, last - Number(stretch.value) * SECOND);
    slider.max = last;
    if (wanted === null) {
      slider.value = last;
      said.textContent = `Now. Drag to look back, as far as ${clock(Number(slider.min))}.`;
    } else {
      slider.value = wanted;
    }
  }

  /** One question at a time, and the newest wish next. */
  async function look(at) {
    wanted = at;
    say(at, "…");
    if (asking) return;
    asking = true;
    const was = await tried(() => get(`/past?at=${encodeURIComponent(new Date(at).toISOString())}`));
    asking = false;
    if (wanted === null) return;
    if (wanted !== at) return look(wanted);
    if (was) {
      say(at, `, in steps of ${was.resolution}`);
      shows(was);
    }
  }

  function say(at, more) {
    slider.setAttribute("aria-valuetext", clock(at));
    said.replaceChildren(h("b", {}, `This is the past: ${clock(at)}`), `, ${age(Math.max(0, Date.now() - at))} ago${more}`);
  }

  async function tried(work) {
    try {
      return await work();
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      said.replaceChildren(h("span", { class: "bad" }, problem.message));
      return null;
    }
  }

  return { element, open, close, isOpen: () => !element.hidden };
}
