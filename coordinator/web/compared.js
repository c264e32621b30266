// How the same fared as it was and in each variant, side by side.

import { h, nothing, table } from "./dom.js";
import { micros, rate, share } from "./units.js";

export function comparison({ variants, resolution, covered_percent: covered }) {
  const good = variants.filter((it) => it.compared);
  const bad = variants.filter((it) => !it.compared);
  return h("div", {},
    covered < 100 && h("p", { class: "said" }, `The history covers ${share(covered / 100)} of that time.`),
    bad.map((it) => h("p", { class: "bad" }, `${it.name}: ${it.problem}`)),
    good.length ? sides(good, resolution) : nothing("No results to compare."));
}

function sides(variants, resolution) {
  const first = variants[0].compared;
  const all = [["as it was", first.as_it_was], ...variants.map((it) => [it.name, it.compared.variant])];
  const row = (words, describe) => [words, ...all.map(([, one]) => describe(one))];
  const columns = all.map((_, index) => index + 1);
  const rows = [
    ...(first.bursts ? ofTraffic : ofJob).map(([words, describe]) => row(words, describe)),
    ...[0, 1, 2].map((place) => row(place ? "" : "fullest links", (it) => full(it.fullest[place]))),
  ];
  return h("div", { class: "compared" },
    table(first.bursts ? "The same traffic" : "The same job", ["", ...all.map(([name]) => name)], rows, columns),
    first.bursts && bursts(variants, resolution));
}

const ms = (time) => micros(time * 1000);

const ofTraffic = [
  ["ends after", (it) => ms(it.end_ms)],
  ["bursts in all", (it) => ms(it.busy_ms)],
  ["slowest burst", (it) => rate(it.slowest_mbps * 1e6)],
];

const ofJob = [
  ["an iteration takes", (it) => ms(it.iteration_ms)],
  ["a rank computes", (it) => ms(it.mean.compute_ms)],
  ["waits for its own communication", (it) => ms(it.mean.exposed_ms)],
  ["waits for others", (it) => ms(it.mean.stalled_ms)],
];

const full = (link) => (link ? `${link.from} > ${link.to} ${share(link.share)}` : "–");

const ROWS = 12;

/** What was measured stands beside where something was. */
function bursts(variants, resolution) {
  const first = variants[0].compared;
  const shown = first.bursts.slice(0, ROWS);
  const wasMeasured = resolution !== undefined;
  const names = [...(wasMeasured ? ["measured"] : []), "as it was", ...variants.map((it) => it.name)];
  const rates = (burst, index) => [...(wasMeasured ? [burst.measured_mbps] : []), burst.as_it_was_mbps, ...variants.map((it) => it.compared.bursts[index].variant_mbps)];
  const rows = shown.map((burst, index) => [burst.from, burst.to, ...rates(burst, index).map((mbps) => rate(mbps * 1e6))]);
  const words = wasMeasured
    ? `Rows of ${resolution}. Error of the model for the original: ${share(first.mean_error)} on average, ${share(first.worst_error)} at most; variants are no more accurate. ${first.bursts.length} bursts shown, ${first.ways_unknown} with an unknown path, ${first.left_out} left out.`
    : `${first.bursts.length} flows shown.`;
  return [h("p", { class: "said" }, words), table("The largest bursts", ["from", "to", ...names], rows, names.map((_, index) => index + 2))];
}
