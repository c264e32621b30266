// What the sandbox plays: traffic of the past, flows from a table, a job, or a trace of one; and on what.

import { h } from "./dom.js";
import { LENGTHS } from "./kept.js";
import { traceForm } from "./trace.js";
import { clock } from "./units.js";
import { save } from "./variant.js";

const TEXTS = {
  flows: ["Flows, as a table", "src,dst,bytes,start_us\nh0,h1,1000000,0", "flows.csv"],
  job: ["Job file", 'model = "llama"\nbatch_per_replica = 4', "job.toml"],
};
const WORDS = [["past", "Traffic of the past"], ["flows", "Flows from a table"], ["job", "A job"], ["trace", "A recorded trace"]];
const FABRIC = ["Fabric (empty: the cluster's own)", 'kind = "leaf-spine"', "fabric.toml"];
const PROFILE = ["Profile of its operators, if it names any", '{"batch_size": 8, "measurements": []}', "profile.json"];

/** `source` is kept as it is changed, and `changed` is called. */
export function sourceForm(source, changed) {
  const until = h("input", { type: "datetime-local", step: 1, "aria-label": "End time", onchange: chosen });
  const length = h("select", { "aria-label": "How long", onchange: () => { source.seconds = Number(length.value); changed(); } }, LENGTHS.map(([words, seconds]) => h("option", { value: seconds, selected: seconds === source.seconds }, words)));
  const kind = h("select", { "aria-label": "Source", onchange: () => { source.kind = kind.value; changed(); draw(); } }, WORDS.map(([value, words]) => h("option", { value, selected: value === source.kind }, words)));
  const past = h("div", { class: "bar" }, h("span", {}, "until"), until, h("span", {}, "for"), length);
  const place = h("div", {});

  function chosen() {
    const at = new Date(until.value);
    source.until = isNaN(at) ? null : at.toISOString();
    changed();
  }

  function draw() {
    place.replaceChildren(...(source.kind === "past" ? [past] : texts(source, changed)));
  }

  const given = (key) => (source[key].trim() ? { [key]: source[key] } : {});

  /** What is to be sent; words where that cannot be said yet. */
  function asked() {
    if (source.kind === "trace" && !source.trace.files.length) return "Open the files of a trace, one for each rank.";
    if (source.kind !== "past") return { [source.kind]: source[source.kind], ...given("fabric"), ...(source.kind === "job" && given("profile")) };
    const to = new Date(until.value);
    if (isNaN(to)) return "Enter an end time.";
    return { from: new Date(to - source.seconds * 1000).toISOString(), to: to.toISOString() };
  }

  draw();
  return { kind, place, asked, show: (at) => (until.value = clock(at).replace(" ", "T")) };
}

function texts(source, changed) {
  const asked = ([words, example, name], key, rows) =>
    field(words, source[key], { rows, placeholder: example }, name, (value) => { source[key] = value; changed(); });
  return [
    ...(source.kind === "trace" ? traceForm(source, changed) : asked(TEXTS[source.kind], source.kind, 6)),
    ...(source.kind === "job" ? asked(PROFILE, "profile", 2) : []),
    ...asked(FABRIC, "fabric", 2),
  ];
}

/** A text that is typed, or opened from a file; and saved as one of this name. */
function field(words, value, attributes, name, keep) {
  const text = h("textarea", { ...attributes, spellcheck: "false", "aria-label": words, oninput: () => keep(text.value) });
  text.value = value;
  const file = h("input", { type: "file", accept: name.replace(/^.*\./, "."), "aria-label": `${words}: open a file`, onchange: open });
  async function open() {
    if (!file.files.length) return;
    text.value = await file.files[0].text();
    file.value = "";
    keep(text.value);
  }
  return [h("div", { class: "bar" }, h("span", {}, words), file, h("button", { type: "button", "aria-label": `${words}: save as a file`, onclick: () => save(name, text.value) }, "Save as a file")), text];
}
