// Every flow that is sending, with its way.

import { h, nothing, panel, table } from "./dom.js";
import { age, flow as flowName, nodesOf, rate } from "./units.js";

const MOST = 500;

export function flows(known) {
  const body = h("div", {});
  const wanted = h("input", { type: "search", placeholder: "host, address or link", "aria-label": "Show only flows with", oninput: heard });

  function heard() {
    const text = wanted.value.trim().toLowerCase();
    const wants = (flow) => [...row(flow), ...linksOf(flow)].join(" ").toLowerCase().includes(text);
    const rows = (known.was ?? known.status).flows.filter(wants).map(row);
    const shown = rows.slice(0, MOST);
    body.replaceChildren(
      shown.length ? table(`${rows.length} flows`, ["from", "to", "flow", "rate", "least to most", "path", "age"], shown, [3, 4, 6]) : nothing(known.was ? "No such flow then." : "No such flow now."),
      rows.length > MOST ? h("p", {}, `${rows.length - MOST} more; use the filter above.`) : "");
  }

  return { element: panel("Flows", h("div", { class: "bar" }, wanted), body), heard };
}

function row(flow) {
  return [
    flow.from, flow.to, flowName(flow.flow), rate(flow.rate_bits_per_s),
    `${rate(flow.least_bits_per_s)} – ${rate(flow.most_bits_per_s)}`, way(flow), age(flow.age_ms),
  ];
}

/** A reader who knows a link finds what goes over it, though paths are named by nodes. */
const linksOf = ({ path, path_back }) => [...(path ?? []), ...(path_back ?? [])].map((hop) => hop.link);

function way({ path, path_back }) {
  if (!path) return "not known";
  const links = (hops) => hops.map((hop) => hop.link).join();
  const other = path_back && links(path_back.toReversed()) !== links(path) ? `; back ${nodesOf(path_back)}` : "";
  return nodesOf(path) + other;
}
