// The names of hosts along a heat map: all of them where they fit, and else one in several.

import { h } from "./dom.js";

/** So close stand two names at most. */
const LINE = 15;

export function axes() {
  const [rows, columns] = ["rows", "columns"].map((kind) => h("div", { class: `axis ${kind}`, "aria-hidden": "true" }));

  /** Of what is seen, on a map of this many points. */
  function name(hosts, { row, column, span }, size) {
    const step = Math.max(1, Math.ceil((LINE * span) / Math.max(1, size)));
    fill(rows, hosts, row, span, step, "top");
    fill(columns, hosts, column, span, step, "left");
  }

  return { rows, columns, name };
}

function fill(axis, hosts, first, span, step, side) {
  const seen = JSON.stringify([hosts.slice(first, first + span), step]);
  if (axis.seen === seen) return;
  axis.seen = seen;
  const names = [];
  for (let nth = 0; nth < span && first + nth < hosts.length; nth += step) {
    const words = h("span", { title: hosts[first + nth] }, hosts[first + nth]);
    words.style[side] = `${(100 * (nth + 0.5)) / span}%`;
    names.push(words);
  }
  axis.replaceChildren(...names);
}
