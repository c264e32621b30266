// What stands behind `#` in the link that this was opened by, which browsers keep to themselves: a token, or a
// sandbox that a reader shares. It stays in this tab alone.

import { keepText } from "./kept.js";

const TOKEN = "reweave-token";
const given = new URLSearchParams(location.hash.slice(1));

if (given.has("token")) sessionStorage.setItem(TOKEN, given.get("token"));
if (given.has("view")) sessionStorage.setItem("reweave-view", given.get("view"));
if (given.has("sandbox")) {
  keepText(given.get("sandbox"));
  sessionStorage.setItem("reweave-view", "sandbox");
}
if (location.hash) history.replaceState(null, "", location.pathname + location.search);
// Another link to here, opened in the same tab.
addEventListener("hashchange", () => location.reload());

export const token = sessionStorage.getItem(TOKEN);

/** A reader who may look is shown the same by it: it is kept nowhere else. */
export function linkTo(sandbox) {
  return `${location.origin}${location.pathname}#${new URLSearchParams({ sandbox })}`;
}
