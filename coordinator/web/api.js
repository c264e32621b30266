// The coordinator's API.

import { token } from "./link.js";

const BASE = "/api/v1";
const LONGEST_ANSWER_MS = 30_000;
/** A coordinator that has nothing to tell says so more often. */
const LONGEST_SILENCE_MS = 20_000;
const AWAY = { detail: "the coordinator is unreachable" };

export class Problem extends Error {
  constructor(problem) {
    super(problem.detail ?? problem.title ?? "the coordinator does not answer");
    this.kind = problem.type ?? "";
    this.status = problem.status ?? 0;
    this.leader = problem.leader ?? null;
  }
}

async function ask(path, options = {}) {
  if (!token) throw new Problem({ type: "urn:reweave:no-token", status: 401, detail: "no token" });
  const headers = { Authorization: `Bearer ${token}`, ...options.headers };
  let response;
  try {
    response = await fetch(BASE + path, { ...options, headers });
  } catch {
    throw new Problem(AWAY);
  }
  if (!response.ok) {
    throw new Problem(await response.json().catch(() => ({ status: response.status, title: response.statusText })));
  }
  return response;
}

/** What comes of it; a coordinator that goes away in the middle, or stands still, is away. */
function came(promise) {
  return promise.catch(() => { throw new Problem(AWAY); });
}

export async function get(path) {
  const response = await ask(path, { signal: AbortSignal.timeout(LONGEST_ANSWER_MS) });
  return came(response.json());
}

/** With `body`, which goes as JSON; `signal` calls it off. */
export function post(path, body, signal, headers = {}) {
  return send("POST", path, body, { signal, headers });
}

/** The part of something that is to be otherwise. */
export function patch(path, body, headers) {
  return send("PATCH", path, body, { headers });
}

async function send(method, path, body, { signal, headers }) {
  const json = body && { body: JSON.stringify(body), headers: { ...headers, "Content-Type": "application/json" } };
  return (await ask(path, { method, signal, headers, ...json })).json();
}

/** Server-sent events, by `fetch` since the browser's own reader sends no token. Ends when the stream does. */
export async function follow(path, heard) {
  const stop = new AbortController();
  let timer;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), LONGEST_SILENCE_MS);
  };
  try {
    wait();
    const response = await ask(path, { cache: "no-store", signal: stop.signal });
    await read(response.body.pipeThrough(new TextDecoderStream()).getReader(), wait, heard);
  } finally {
    clearTimeout(timer);
  }
}

async function read(reader, wait, heard) {
  let held = "";
  for (;;) {
    const { value, done } = await came(reader.read());
    if (done) return;
    wait();
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
