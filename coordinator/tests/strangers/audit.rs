//! Who asked for what: over sessions and over HTTP, refusals included, and after a crash as before.

use std::fs;
use std::time::Duration;

use reweave_common::member::Member;
use reweave_common::operator::{AuditOutcome, Audited, MemberOrder, Request, Response};
use reweave_link::chain::ChainVerifier;
use reweave_link::join::enter;
use reweave_link::{Identity, Role};
use serde_json::Value;

use super::api::{is_problem, operators, viewers};
use super::house::{House, ask, soon};
use super::http::send;

async fn asked(house: &House, who: &Identity, request: &Request) -> Response {
    ask(&soon(house.connect(who)).await.unwrap(), request).await
}

/// The oldest first.
async fn audit(house: &House) -> Vec<Audited> {
    let request = Request::Audit { before: None };
    match asked(house, &house.operator, &request).await {
        Response::Audit(mut audit) => {
            audit.reverse();
            audit
        }
        other => panic!("no audit: {other:?}"),
    }
}

fn lines(audit: &[Audited]) -> Vec<String> {
    let line = |it: &Audited| format!("{}: {}: {}", it.who, it.what, it.outcome.as_str());
    audit.iter().map(line).collect()
}

async fn decide(house: &House) {
    let node = Member::new(Role::Agent, "h0");
    let token = house.invite(&node).await;
    let folder = house.path("joined");
    soon(enter(&[house.door], &token, &folder)).await.unwrap();
    let hosts = vec!["h1".to_owned()];
    asked(house, &house.operator, &Request::Freeze { hosts }).await;
    let revoke = Request::Revoke { member: node };
    asked(house, &house.operator, &revoke).await;
    let order = MemberOrder::Remove {
        who: "c9\u{1b}[2J".to_owned(),
    };
    asked(house, &house.operator, &Request::ChangeMembers(order)).await;
}

#[tokio::test]
async fn every_request_is_audited_with_outcome() {
    let mut house = House::new();
    decide(&house).await;
    let viewer = house.member(Role::Viewer, "vic");
    assert!(matches!(
        asked(&house, &viewer, &Request::Plan).await,
        Response::Refused(_)
    ));
    let [operator, visitor] = [operators(&house).await, viewers(&house).await];
    send(&house, "GET", "/api/v1/status", &operator);
    is_problem(
        &send(&house, "POST", "/api/v1/plans/1/approval", &operator),
        404,
        "no-plan",
    );
    is_problem(
        &send(
            &house,
            "POST",
            "/api/v1/plans/1/approval?now=true",
            &visitor,
        ),
        403,
        "not-allowed",
    );
    let written = audit(&house).await;
    assert_eq!(
        lines(&written),
        [
            "operator ann: invite agent h0, within 600 s: done",
            "joining member at 127.0.0.1: join as agent h0: done",
            "operator ann: freeze the job of h1: refused",
            "operator ann: revoke agent h0: done",
            "operator ann: remove coordinator c9\u{1b}[2J: refused",
            "viewer vic: make a plan: refused",
            "operator ann: make a token, good for 3600 s: done",
            "viewer vic: make a token, good for 3600 s: done",
            "operator ann, by a token: approve plan 1: refused",
            "viewer vic, by a token: approve plan 1, outside change windows: refused",
        ]
    );
    let why = written[5].why.as_deref().unwrap();
    assert!(
        why.contains("role viewer is not allowed to do this"),
        "{why}"
    );
    let numbers: Vec<_> = written.iter().map(|it| it.number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    house.restart();
    assert_eq!(audit(&house).await, written);
    let newest = written.last().map(|it| it.digest.clone());
    let file = format!("data/audit/{:020}.jsonl", 1);
    let text = fs::read(house.path(&file)).unwrap();
    let mut verifier = ChainVerifier::expecting(newest);
    let mut lines = text.split(|byte| *byte == b'\n');
    lines
        .try_for_each(|line| verifier.check_line(line))
        .unwrap();
    assert!(verifier.is_as_expected());
}

#[tokio::test]
async fn only_operators_read_audit() {
    let house = House::new();
    let [operator, visitor] = [operators(&house).await, viewers(&house).await];
    let path = "/api/v1/audit";
    is_problem(&send(&house, "GET", path, &visitor), 403, "not-allowed");
    is_problem(&send(&house, "GET", path, ""), 401, "no-token");
    let viewer = house.member(Role::Viewer, "vic");
    let refused = asked(&house, &viewer, &Request::Audit { before: None }).await;
    assert!(matches!(refused, Response::Refused(_)), "{refused:?}");
    let read = || send(&house, "GET", path, &operator).json()["audit"].clone();
    let result = read();
    let result = result.as_array().unwrap();
    let what: Vec<_> = result
        .iter()
        .map(|it| it["what"].as_str().unwrap())
        .collect();
    let reads = "read the audit log";
    let tokens = "make a token, good for 3600 s";
    let http_read = "GET /api/v1/audit over HTTP";
    assert_eq!(what, [reads, http_read, reads, tokens, tokens]);
    assert_eq!(result[1]["outcome"], "refused");
    assert_eq!(result[1]["who"], "unknown");
    let third = result[2]["number"].as_u64().unwrap();
    let older = send(&house, "GET", &format!("{path}?before={third}"), &operator);
    assert_eq!(older.json()["audit"], Value::from(result[3..].to_vec()));
    // Reading it changes nothing of it.
    assert_eq!(read(), Value::from(result.clone()));
}

#[tokio::test]
async fn unauthenticated_requests_are_counted_in_audit() {
    let house = House::new();
    for _ in 0..90 {
        is_problem(&send(&house, "GET", "/api/v1/status", ""), 401, "no-token");
    }
    // The next is written down only after a while, with all that came before it.
    let strangers = async || {
        send(&house, "GET", "/api/v1/status", "");
        let audit = audit(&house).await;
        let refused = |it: &&Audited| it.outcome == AuditOutcome::Refused;
        let strangers = audit.iter().filter(refused).map(|it| it.times);
        strangers.collect::<Vec<_>>()
    };
    let counted = tokio::time::timeout(Duration::from_mins(1), async {
        loop {
            let counted = strangers().await;
            if counted.iter().sum::<u64>() >= 90 {
                return counted;
            }
        }
    });
    let counted = counted.await.expect("they are counted");
    assert!(counted.len() < 30, "{counted:?}");
}
