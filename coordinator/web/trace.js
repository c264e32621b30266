// A trace that recorders wrote of a job: files as they are, one for each rank.

import { h, nothing, table } from "./dom.js";
import { FORMATS, MAX_GPUS_PER_HOST } from "./kept.js";
import { bytes } from "./units.js";
import { save } from "./variant.js";

/** What is opened stays in `source.trace`, and `changed` is called. */
export function traceForm(source, changed) {
  const format = h("select", { "aria-label": "Trace format", onchange: () => put({ format: format.value }) }, FORMATS.map(([value, words]) => h("option", { value, selected: value === source.trace.format }, words)));
  const each = h("input", { type: "number", min: 1, max: MAX_GPUS_PER_HOST, value: source.trace.gpus_per_host, "aria-label": "Ranks on each host", onchange: () => put({ gpus_per_host: within(each) }) });
  const files = h("input", { type: "file", multiple: true, "aria-label": "Open the files of a trace, one for each rank", onchange: open });
  const saved = h("button", { type: "button", "aria-label": "Save the files of the trace", onclick: saveAll }, "Save as files");
  const list = h("div", {});

  function put(what) {
    source.trace = { ...source.trace, ...what };
    changed();
    draw();
  }

  /** In the order of their names, in which 10 comes after 9. */
  async function open() {
    const chosen = [...files.files].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
    files.value = "";
    if (chosen.length) put({ files: await Promise.all(chosen.map(async (file) => ({ name: file.name, base64: await base64(file) }))) });
  }

  function saveAll() {
    for (const { name, base64: text } of source.trace.files) save(name, Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)));
  }

  function draw() {
    const opened = source.trace.files;
    saved.disabled = !opened.length;
    list.replaceChildren(opened.length
      ? table("The files of the trace", ["rank", "file", "size"], opened.map((file, rank) => [String(rank), file.name, bytes(sizeOf(file))]), [2])
      : nothing("No files open: open one per rank; ranks follow the order of file names."));
  }

  draw();
  return [h("div", { class: "bar" }, format, h("span", {}, "ranks on each host"), each, files, saved), list];
}

function within(field) {
  field.value = Math.min(MAX_GPUS_PER_HOST, Math.max(1, Math.round(Number(field.value)) || 1));
  return Number(field.value);
}

const sizeOf = ({ base64: text }) => Math.floor(text.replace(/=+$/, "").length * 3 / 4);

function base64(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.split(",")[1] ?? "");
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}
