// What is known of the cluster at a moment of the past, in a few figures.

import { h, nothing, panel, table } from "./dom.js";
import { tileRow, tilesThen } from "./tiles.js";
import { wordsFor } from "./troubles.js";
import { clock, share } from "./units.js";

export function then(known) {
  const tiles = tileRow();
  const events = h("div", {});
  const away = h("div", {});

  function heard() {
    const { was } = known;
    tiles.show(tilesThen(was));
    events.replaceChildren(was.events.length
      ? table("In the ten minutes before", ["when", "what", "where", "generation"], was.events.map((it) => [clock(Date.parse(it.at)), wordsFor(it.what), it.place, it.generation ?? "–"]))
      : nothing("No findings and no changes in the ten minutes before."));
    const absent = was.agents.filter((it) => it.connected_share < 1);
    away.replaceChildren(absent.length
      ? table("Disconnected, wholly or in part", ["node", "connected"], absent.map((it) => [it.node, share(it.connected_share)]), [1])
      : nothing("All known agents were connected."),
      ...was.missing.map((words) => h("p", { class: "warn" }, `Missing: ${words}`)));
  }

  return { element: h("div", {}, panel("The cluster then", tiles.element), panel("Found and changed", events), panel("Agents", away)), heard };
}

/** Instead of a view of what only is now. */
export function onlyNow(title) {
  return () => ({ element: panel(title, nothing(`${title} have no history: go back to now to see them.`)), heard() {} });
}
