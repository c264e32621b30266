// The coordinator's API.

import { token } from "./link.js";

const BASE = "/api/v1";

export class Problem extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title ?? "the coordinator does not answer");
    this.kind = problem.type ?? "";
    this.status = problem.status ?? 0;
  }
}

async function ask(path, options = {}) {
  if (!token) throw new Problem({ type: "urn:reweave:no-token", status: 401, detail: "no token" });
  const headers = { Authorization: `Bearer ${token}`, ...options.headers };
  let response;
  try {
    response = await fetch(BASE + path, { ...options, headers });
  } catch {
    throw new Problem({ detail: "the coordinator cannot be reached" });
  }
  if (!response.ok) {
    throw new Problem(await response.json().catch(() => ({ status: response.status, title: response.statusText })));
  }
  return response;
}

export async function get(path) {
  return (await ask(path)).json();
}

/** With `body`, which goes as JSON; `signal` calls it off. */
export async function post(path, body, signal, headers = {}) {
  const json = body && { body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } };
  return (await ask(path, { method: "POST", signal, headers, ...json })).json();
}

/** Server-sent events, by `fetch` since the browser's own reader sends no token. Ends when the stream does. */
export async function follow(path, heard) {
  const response = await ask(path, { cache: "no-store" });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (held + value).split("\n\n");
    held = events.pop();
    for (const event of events) tell(event, heard);
  }
}

function tell(event, heard) {
  const fields = event.split("\n").map((line) => line.split(/: ?(.*)/s, 2));
  const named = (wanted) => fields.filter(([name]) => name === wanted).map(([, value]) => value).join("\n");
  if (named("event")) heard(named("event"), JSON.parse(named("data")));
}
