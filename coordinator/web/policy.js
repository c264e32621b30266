// The policy: every setting with its source, and a change of one, which an operator compares with what is in force first.

import { Problem, get, patch } from "./api.js";
import { h, nothing, table } from "./dom.js";
import { signed } from "./review.js";
import { age } from "./units.js";

const CHANGED = 412;
const EVERY_MS = 5000;

/** Without `mayChange`, it is for looking only. */
export function policy(mayChange) {
  const list = h("div", {});
  const refusal = h("div", { role: "alert" });
  const comparison = h("div", { tabindex: "-1", role: "group", "aria-label": "Change of the policy" });
  const key = h("select", { "aria-label": "Setting", onchange: choose });
  const value = h("input", { "aria-label": "New value", autocomplete: "off", spellcheck: "false" });
  const set = h("button", { type: "button", disabled: true, onclick: () => compare(value.value) }, "Compare with the new value");
  const reset = h("button", { type: "button", disabled: true, onclick: () => compare(null) }, "Compare with the file's value");
  let shown = null;
  let askedAt = 0;

  async function look() {
    askedAt = Date.now();
    await trying(list, async () => draw(await get("/policy")));
  }

  function draw(policy) {
    const isFirst = shown === null;
    shown = policy;
    list.replaceChildren(table("Settings", ["setting", "value", "source"], shown.settings.map((it) => [it.key, it.value, source(it)])));
    if (isFirst) {
      key.replaceChildren(...shown.settings.map((it) => h("option", { value: it.key }, it.key)));
      choose();
    }
    set.disabled = false;
    reset.disabled = !isSet(chosen());
  }

  const chosen = () => shown.settings.find((it) => it.key === key.value);

  function choose() {
    value.value = chosen().value;
    reset.disabled = !isSet(chosen());
    comparison.replaceChildren();
  }

  /** The change is made to exactly what is shown here; null is the value of the file. */
  function compare(next) {
    const { revision } = shown;
    const before = chosen();
    comparison.replaceChildren(
      table("Change of the policy", ["", "setting"], [
        signed("−", "minus", `${before.key} = ${before.value} (${source(before)})`),
        signed("+", "plus", `${before.key} = ${next ?? "the value of coordinator.toml, or the default"}`),
      ]),
      h("div", { class: "bar" },
        h("button", { type: "button", class: "main", onclick: () => change(revision, before.key, next) }, `Change ${before.key}`),
        h("button", { type: "button", onclick: choose }, "Cancel")));
    comparison.focus({ preventScroll: true });
  }

  async function change(revision, name, next) {
    comparison.inert = true;
    refusal.replaceChildren();
    await trying(refusal, async () => {
      try {
        draw(await patch("/policy", { settings: { [name]: next } }, { "If-Match": `"${revision}"` }));
        comparison.replaceChildren(nothing(`${name} is changed.`));
      } catch (problem) {
        if (problem.status === CHANGED) {
          comparison.replaceChildren();
          look();
        }
        throw problem;
      }
    });
    comparison.inert = false;
  }

  function heard() {
    if (Date.now() - askedAt > EVERY_MS) look();
  }

  look();
  return { element: h("div", {}, mayChange ? [h("div", { class: "bar" }, key, value, set, reset), refusal, comparison] : null, list), heard };
}

/** Whether the log has a value for it. */
const isSet = (setting) => setting.source === "set" || Boolean(setting.unfit);

function source(setting) {
  if (setting.set) return `set by ${setting.set.by}, ${age(1000 * setting.set.age_s)} ago`;
  return setting.unfit ? `${setting.source}; ${setting.unfit}` : setting.source;
}

async function trying(place, work) {
  try {
    await work();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    place.replaceChildren(h("p", { class: "bad" }, problem.message));
  }
}
