//! Decisions become a trace that a collector accepts.

use std::env;
use std::process::{Command as Program, Stdio};
use std::sync::Arc;

use reqwest::Url;
use reweave_common::fabric::Fabric;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::instruction::{Ack, InstallRefusal, Token};
use reweave_common::moment::Moment;
use reweave_common::plan::{Generation, Plan};
use reweave_common::resource_set::ResourceSet;
use reweave_core::{Aim, Author, Change, Command, Decision, Reason, StepIntent, Verdict};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::letter::letter;
use super::spans::{Rollouts, Trace};
use super::{QUEUE_LENGTH, Traces, traces_of};
use crate::tests::scene::FABRIC;

const PLAN_GENERATION: Generation = Generation(3);
/// What switches are instructed when it is rolled back.
const ROLLBACK_GENERATION: Generation = Generation(4);

fn fabric() -> Arc<Fabric> {
    Arc::new(Fabric::parse("f.toml", FABRIC).unwrap())
}

fn proposed() -> Change {
    Change::PlanProposed {
        plan: Box::new(Plan::empty(PLAN_GENERATION, Generation(2))),
        claims: Box::new(ResourceSet::default()),
        by: Author::Policy,
    }
}

fn approved() -> Change {
    Change::PlanApproved {
        generation: PLAN_GENERATION,
        by: Author::Operator("ops".to_owned()),
        anyway: false,
    }
}

fn step_intent(generation: Generation, aim: Aim) -> Change {
    let fabric = fabric();
    let switches = ["leaf0", "leaf1"].map(|name| fabric.find(name).unwrap());
    Change::StepIntent(StepIntent {
        plan: PLAN_GENERATION,
        generation,
        aim,
        targets: switches
            .map(|node| (node, ForwardingState::default()))
            .into(),
    })
}

fn answered(
    name: &str,
    generation: Generation,
    outcome: Result<ForwardingState, InstallRefusal>,
) -> Change {
    Change::Acked {
        node: fabric().find(name).unwrap(),
        ack: Ack {
            generation,
            token: Token(1),
            outcome,
        },
    }
}

fn verified(decision: Decision) -> Change {
    let verdict = Verdict {
        decision,
        flows: vec![],
        iterations: Vec::new(),
    };
    Change::Verified {
        generation: PLAN_GENERATION,
        verdict,
    }
}

fn install() -> Aim {
    Aim::Install { before: vec![] }
}

fn kept() -> Vec<Change> {
    let good = |name| answered(name, PLAN_GENERATION, Ok(ForwardingState::default()));
    vec![
        proposed(),
        approved(),
        step_intent(PLAN_GENERATION, install()),
        good("leaf1"),
        good("leaf0"),
        verified(Decision::Commit),
    ]
}

/// The changes of generation 3, under its first token and under the confirming one.
fn confirmed() -> Vec<Change> {
    let good = |name| answered(name, PLAN_GENERATION, Ok(ForwardingState::default()));
    vec![
        proposed(),
        approved(),
        step_intent(PLAN_GENERATION, install()),
        good("leaf1"),
        good("leaf0"),
        Change::ConfirmIntent {
            plan: PLAN_GENERATION,
        },
        good("leaf0"),
        good("leaf1"),
        verified(Decision::Commit),
    ]
}

fn taken_back() -> Vec<Change> {
    let reasons = vec![Reason::Superseded { by: Generation(9) }];
    let refused = Err(InstallRefusal::NotASwitch);
    vec![
        proposed(),
        approved(),
        step_intent(PLAN_GENERATION, install()),
        answered("leaf0", PLAN_GENERATION, Ok(ForwardingState::default())),
        answered("leaf1", PLAN_GENERATION, refused),
        step_intent(ROLLBACK_GENERATION, Aim::Undo { reasons }),
        answered("leaf0", ROLLBACK_GENERATION, Ok(ForwardingState::default())),
        Change::RolledBack {
            generation: PLAN_GENERATION,
        },
    ]
}

/// One a second, from the first second on.
fn commands(changes: Vec<Change>) -> impl Iterator<Item = Command> {
    let timed = (1..).zip(changes);
    timed.map(|(second, change): (u64, _)| Command {
        at: Moment::from_micros(second * 1_000_000),
        change,
    })
}

fn traced(changes: Vec<Change>) -> Trace {
    let mut rollouts = Rollouts::new(fabric());
    let traces = commands(changes).map(|it| rollouts.handle_command(&it));
    let mut traces: Vec<_> = traces.collect();
    let last = traces.pop().unwrap();
    assert!(traces.iter().all(Vec::is_empty), "it ends with the last");
    <[Trace; 1]>::try_from(last).unwrap()[0].clone()
}

/// Name, parent, when it began and ended, and whether it failed.
fn outline(trace: &Trace) -> Vec<String> {
    let parent = |place: Option<usize>| place.map_or("-", |place| &trace.spans[place].name);
    let second = |at: Moment| at.as_micros() / 1_000_000;
    let line = |span: &super::spans::Span| {
        let failed = span
            .failed
            .as_ref()
            .map_or(String::new(), |why| format!(": {why}"));
        let (began, ended) = (second(span.began), second(span.ended));
        format!(
            "{} < {} {began}..{ended}{failed}",
            span.name,
            parent(span.parent)
        )
    };
    trace.spans.iter().map(line).collect()
}

#[test]
fn committed_plan_has_all_spans() {
    let expected = [
        "rollout < - 1..6",
        "plan < rollout 1..1",
        "approval < rollout 1..2",
        "round 1 < rollout 3..5",
        "step leaf0 < round 1 3..5",
        "step leaf1 < round 1 3..4",
        "verify < rollout 5..6",
    ];
    assert_eq!(outline(&traced(kept())), expected);
}

#[test]
fn confirming_has_spans_of_its_own() {
    let expected = [
        "rollout < - 1..9",
        "plan < rollout 1..1",
        "approval < rollout 1..2",
        "round 1 < rollout 3..5",
        "step leaf0 < round 1 3..5",
        "step leaf1 < round 1 3..4",
        "confirm 1 < rollout 6..8",
        "step leaf0 < confirm 1 6..7",
        "step leaf1 < confirm 1 6..8",
        "verify < rollout 8..9",
    ];
    assert_eq!(outline(&traced(confirmed())), expected);
}

#[test]
fn rolled_back_plan_names_failed_switch() {
    let expected = [
        "rollout < - 1..8: rolled back",
        "plan < rollout 1..1",
        "approval < rollout 1..2",
        "round 1 < rollout 3..5: 1 did not follow",
        "step leaf0 < round 1 3..4",
        "step leaf1 < round 1 3..5: it forwards nothing",
        "roll back < rollout 6..8",
        "round 2 < roll back 6..8: 1 did not follow",
        "step leaf0 < round 2 6..7",
        "step leaf1 < round 2 6..8: no answer",
    ];
    assert_eq!(outline(&traced(taken_back())), expected);
}

/// However many switches were instructed, the trace of a plan that is kept comes out, and says what it leaves out.
#[test]
fn large_plan_has_its_trace() {
    let mut changes = kept();
    let confirmed = changes.split_off(3);
    let rounds = std::iter::repeat_n(
        Change::ConfirmIntent {
            plan: PLAN_GENERATION,
        },
        3_000,
    );
    changes.extend(rounds.chain(confirmed));
    let trace = traced(changes);
    let mut facts = trace.spans[0].facts.iter();
    assert!(facts.any(|(name, _)| *name == "reweave.spans_left_out"));
}

#[test]
fn withdrawn_or_refused_plan_ends_trace() {
    let withdrawn = Change::PlanWithdrawn {
        generation: PLAN_GENERATION,
        reasons: vec![Reason::Superseded { by: Generation(9) }],
    };
    let trace = traced(vec![proposed(), withdrawn]);
    let why = trace.spans[0].failed.as_deref().unwrap();
    assert!(why.starts_with("withdrawn: "), "{why}");
    assert_eq!(outline(&trace)[2], "approval < rollout 1..2");
}

#[test]
fn trace_export_matches_otlp() {
    let letter = letter(&traced(taken_back()));
    let spans = letter["resourceSpans"][0]["scopeSpans"][0]["spans"]
        .as_array()
        .unwrap();
    let ids: std::collections::BTreeSet<_> = spans.iter().map(|it| it["spanId"].as_str()).collect();
    assert_eq!(ids.len(), spans.len());
    for span in spans {
        assert_eq!(span["traceId"], spans[0]["traceId"]);
        assert_eq!(span["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(span["spanId"].as_str().unwrap().len(), 16);
    }
    assert_eq!(spans[0]["parentSpanId"], Value::Null);
    assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"]);
    assert_eq!(spans[0]["startTimeUnixNano"], "1000000000");
    assert_eq!(spans[0]["endTimeUnixNano"], "8000000000");
    assert_eq!(
        [&spans[0]["status"]["code"], &spans[1]["status"]["code"]],
        [2, 1]
    );
}

#[test]
fn collector_url_gets_default_path() {
    let at = |text: &str| traces_of(Url::parse(text).unwrap()).to_string();
    assert_eq!(at("http://c:4318"), "http://c:4318/v1/traces");
    assert_eq!(at("https://c/own/path"), "https://c/own/path");
}

/// What was posted, and the answer to it.
async fn receive(mut line: TcpStream, answer: &str) -> (String, String) {
    let mut text = Vec::new();
    let head = loop {
        let mut piece = [0; 4096];
        let length = line.read(&mut piece).await.unwrap();
        assert_ne!(length, 0, "it hung up");
        text.extend_from_slice(&piece[..length]);
        if let Some(end) = text.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8(text[..end].to_vec())
                .unwrap()
                .to_lowercase();
            let length = head.split_once("content-length: ").unwrap().1;
            let length: usize = length.lines().next().unwrap().parse().unwrap();
            if text.len() >= end + 4 + length {
                text.drain(..end + 4);
                break head;
            }
        }
    };
    let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
    line.write_all(answer.as_bytes()).await.unwrap();
    (head, String::from_utf8(text).unwrap())
}

/// It is busy at first; and who does not lead says nothing.
#[tokio::test]
async fn leader_exports_rollout_until_accepted() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (traces, export) = Traces::new(Url::parse(&url).unwrap(), fabric());
    export.begin().unwrap();
    for command in commands(taken_back()) {
        traces.hear_decided(&command, false);
    }
    for command in commands(kept()) {
        traces.hear_decided(&command, true);
    }
    let (line, _) = listener.accept().await.unwrap();
    receive(line, "503 Busy").await;
    let (line, _) = listener.accept().await.unwrap();
    let (head, body) = receive(line, "200 OK").await;
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(head.contains("content-type: application/json"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body, letter(&traced(kept())));
    // The first would be posted again before the next.
    for command in commands(taken_back()) {
        traces.hear_decided(&command, true);
    }
    let (line, _) = listener.accept().await.unwrap();
    let (_, body) = receive(line, "200 OK").await;
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body, letter(&traced(taken_back())));
}

/// Decisions are not read, and the leader goes on deciding.
#[test]
fn full_trace_queue_blocks_nothing() {
    let (traces, export) = Traces::new(Url::parse("http://127.0.0.1:1").unwrap(), fabric());
    let [command] = commands(vec![approved()])
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    for _ in 0..QUEUE_LENGTH + 10 {
        traces.hear_decided(&command, true);
    }
    assert_eq!(export.heard.len(), QUEUE_LENGTH);
}

/// The protocol's own message, as it was published, and no field besides.
const READER_SCRIPT: &str = "
import sys, json, base64
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
spans = json.load(sys.stdin)
# OTLP writes identifiers in hexadecimal, where other messages in JSON have base64.
for span in spans['resourceSpans'][0]['scopeSpans'][0]['spans']:
    for key in ('traceId', 'spanId', 'parentSpanId'):
        if key in span:
            span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
request = Parse(json.dumps(spans), ExportTraceServiceRequest())
spans = request.resource_spans[0].scope_spans[0].spans
print(len(spans), spans[0].name, spans[0].status.code, spans[-1].end_time_unix_nano)
";

#[test]
#[ignore = "needs REWEAVE_PYTHON with opentelemetry-proto: make test-peers"]
fn otlp_library_reads_export() {
    let python = env::var("REWEAVE_PYTHON").expect("REWEAVE_PYTHON");
    let mut reader = Program::new(python);
    reader
        .args(["-c", READER_SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut reader = reader.spawn().unwrap();
    let letter = letter(&traced(taken_back())).to_string();
    std::io::Write::write_all(&mut reader.stdin.take().unwrap(), letter.as_bytes()).unwrap();
    let output = reader.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.trim(), "10 rollout 2 8000000000");
}
