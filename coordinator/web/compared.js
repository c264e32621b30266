// How the same traffic fared as it was and in each variant, side by side.

import { h, nothing, table } from "./dom.js";
import { micros, rate, share } from "./units.js";

export function comparison({ variants, resolution }) {
  const good = variants.filter((it) => it.compared);
  const bad = variants.filter((it) => !it.compared);
  return h("div", {},
    bad.map((it) => h("p", { class: "bad" }, `${it.name}: ${it.problem}`)),
    good.length ? sides(good, resolution) : nothing("There is nothing to compare."));
}

function sides(variants, resolution) {
  const first = variants[0].compared;
  const all = [["as it was", first.as_it_was], ...variants.map((it) => [it.name, it.compared.variant])];
  const row = (words, told) => [words, ...all.map(([, one]) => told(one))];
  const columns = all.map((_, index) => index + 1);
  const rows = [
    row("ends after", (it) => micros(it.end_ms * 1000)),
    row("bursts in all", (it) => micros(it.busy_ms * 1000)),
    row("slowest burst", (it) => rate(it.slowest_mbps * 1e6)),
    ...[0, 1, 2].map((place) => row(place ? "" : "fullest links", (it) => full(it.fullest[place]))),
  ];
  return h("div", { class: "compared" },
    table("The same traffic", ["", ...all.map(([name]) => name)], rows, columns),
    h("p", { class: "said" }, `Rows of ${resolution}. As it was, the model is off by ${share(first.mean_error)} on average and ${share(first.worst_error)} at most: believe a variant no more than that. ${first.bursts.length} bursts are shown, ${first.ways_unknown} went unknown ways, ${first.left_out} are left out.`),
    table("The largest bursts", ["from", "to", "measured", "as it was", ...variants.map((it) => it.name)], bursts(variants), [2, ...columns.map((it) => it + 2)]));
}

const full = (link) => (link ? `${link.from} → ${link.to} ${share(link.share)}` : "–");

const ROWS = 12;

function bursts(variants) {
  const first = variants[0].compared.bursts.slice(0, ROWS);
  return first.map((burst, index) => [burst.from, burst.to, ...[burst.measured_mbps, burst.as_it_was_mbps, ...variants.map((it) => it.compared.bursts[index].variant_mbps)].map((mbps) => rate(mbps * 1e6))]);
}
