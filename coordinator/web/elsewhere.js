// Where the page goes on when the coordinator that serves it leads no more, or is gone: the same token is good with all.

import { h, panel } from "./dom.js";
import { token } from "./link.js";

/** `10.0.9.1` of `10.0.9.1:7332`, and `[fd00::1]` of `[fd00::1]:7332`, as links have it. */
const hostOf = (address) => address.replace(/:\d+$/, "");
const isNear = /^(localhost|127\..*|\[::1\])$/.test(location.hostname);
const isNumber = /^([\d.]+|\[.*\])$/.test(location.hostname);

function linkAt(host) {
  const port = location.port && `:${location.port}`;
  const given = { view: sessionStorage.getItem("reweave-view") ?? "overview", ...(token && { token }) };
  return `${location.protocol}//${host}${port}/#${new URLSearchParams(given)}`;
}

/** One that says who leads is left for that one, where this page was opened by an address as the leader's is. */
export function goesTo(problem) {
  const host = problem.leader && hostOf(problem.leader);
  return isNumber && !isNear && host && host !== location.hostname ? linkAt(host) : null;
}

/** A coordinator that is not here, as what a person does to see its page. */
function way({ name, address, state }) {
  const host = hostOf(address);
  const was = state === "leads" || state === "follows" ? "" : `, last known as ${state}`;
  if (!isNear && host !== location.hostname) return h("li", {}, h("a", { href: linkAt(host) }, `${name}, at ${host}`), was);
  const port = location.port || "7334";
  return h("li", {}, `${name}, at ${address}${was}: `, h("code", {}, `ssh -L ${port}:127.0.0.1:${port} ${host}`), ", then reload this page; or open the HTTP address of its settings");
}

/** What to open in place of this page, and why; null while there is nowhere else. */
export function elsewhere(problem, coordinators) {
  const others = problem.leader
    ? [coordinators.find((one) => one.address === problem.leader) ?? { name: "the leader", address: problem.leader, state: "leads" }]
    : coordinators.filter((one) => one.heard_ms !== null);
  if (!others.length) return null;
  return panel("This page is no longer live", h("p", {}, `${problem.message}. The data below is old. Continue at:`),
    h("ul", {}, others.map(way)));
}
