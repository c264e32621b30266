//! The API and the page over HTTP: who may ask what, and what the answers to others are.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use reweave_common::member::Member;
use reweave_common::operator::{Refused, Request, Response};
use reweave_link::access_token::AccessToken;
use reweave_link::{Identity, Role};

use super::house::{House, ONE_HOUR, ask, soon};
use super::http::{Answer, send, send_json};

/// The header of a token that `who` made.
async fn visit(house: &House, who: &Identity, lasting: Duration) -> (String, Response) {
    let visit = AccessToken::random();
    let session = soon(house.connect(who)).await.unwrap();
    let token = visit.digest();
    let answer = ask(
        &session,
        &Request::Visit {
            token,
            lasting: lasting.into(),
        },
    )
    .await;
    (format!("Authorization: Bearer {visit}\r\n"), answer)
}

pub(crate) async fn operators(house: &House) -> String {
    visit(house, &house.operator, ONE_HOUR).await.0
}

pub(crate) async fn viewers(house: &House) -> String {
    let viewer = house.member(Role::Viewer, "vic");
    visit(house, &viewer, ONE_HOUR).await.0
}

#[track_caller]
pub(crate) fn is_problem(answer: &Answer, code: u16, kind: &str) {
    assert_eq!(answer.code, code, "{}", answer.body);
    let json = answer.json();
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(json["type"], format!("urn:reweave:{kind}"));
    assert_eq!(json["status"], code);
    assert!(!json["detail"].as_str().unwrap().is_empty());
}

const READ_PATHS: [&str; 16] = [
    "me",
    "status",
    "fabric",
    "findings",
    "matrix",
    "matrix?rail=0",
    "pairs",
    "nics",
    "traffic",
    "traffic?rail=0",
    "jobs",
    "imbalance",
    "history",
    "policy",
    "past/spans",
    "events",
];

#[tokio::test]
async fn api_requires_valid_token() {
    let house = House::new();
    operators(&house).await;
    let strangers = format!("Authorization: Bearer {}\r\n", AccessToken::random());
    for path in READ_PATHS {
        let path = format!("/api/v1/{path}");
        for headers in [
            "",
            "Authorization: Bearer x\r\n",
            "Authorization: Basic x\r\n",
        ] {
            is_problem(&send(&house, "GET", &path, headers), 401, "no-token");
        }
        is_problem(&send(&house, "GET", &path, &strangers), 401, "no-visitor");
    }
    is_problem(
        &send(&house, "POST", "/api/v1/plans", &strangers),
        401,
        "no-visitor",
    );
}

#[tokio::test]
async fn token_has_rights_of_its_maker() {
    let house = House::new();
    let (operator, viewer) = (operators(&house).await, viewers(&house).await);
    let me = send(&house, "GET", "/api/v1/me", &viewer).json();
    assert_eq!(me, serde_json::json!({ "role": "viewer", "name": "vic" }));
    for path in &READ_PATHS[..15] {
        let answer = send(&house, "GET", &format!("/api/v1/{path}"), &viewer);
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
    }
    let fabric = send(&house, "GET", "/api/v1/fabric", &viewer).json();
    assert_eq!(fabric["nodes"].as_array().unwrap().len(), 8);
    assert_eq!(fabric["links"].as_array().unwrap().len(), 8);
    let nic = &fabric["nics"].as_array().unwrap()[3];
    assert_eq!(nic["host"], "h3");
    assert_eq!(nic["link"], "h3-leaf1");
    assert_eq!(nic["rail"], 0);
    assert_eq!(nic["use"], "training");
    let nics = send(&house, "GET", "/api/v1/nics", &viewer).json();
    let nics = nics["nics"].as_array().unwrap();
    assert_eq!(nics[3]["link"], "h3-leaf1");
    assert_eq!(nics[3]["up"], serde_json::Value::Null, "it has no agent");
    let traffic = send(&house, "GET", "/api/v1/traffic", &viewer).json();
    assert_eq!(traffic["all_pairs"], 0);
    let misspelt = "/api/v1/traffic?rail=first";
    is_problem(&send(&house, "GET", misspelt, &viewer), 400, "bad-request");
    is_problem(
        &send(&house, "POST", "/api/v1/plans", &viewer),
        403,
        "not-allowed",
    );
    let approval = "/api/v1/plans/1/approval";
    is_problem(&send(&house, "POST", approval, &viewer), 403, "not-allowed");
    let back = "/api/v1/history/1/taking-back";
    is_problem(&send(&house, "POST", back, &viewer), 403, "not-allowed");
    let traced = "/api/v1/traces?from=h0&to=h1&refresh=true";
    is_problem(&send(&house, "GET", traced, &viewer), 403, "not-allowed");
    let last = "/api/v1/traces?from=h0&to=h1";
    let nothing = serde_json::json!({ "flows": [] });
    assert_eq!(send(&house, "GET", last, &viewer).json(), nothing);
    let planned = send(&house, "POST", "/api/v1/plans", &operator);
    assert_eq!(planned.json()["plan"], serde_json::Value::Null);
    is_problem(&send(&house, "POST", approval, &operator), 404, "no-plan");
}

#[tokio::test]
async fn plan_can_be_requested_with_intent() {
    let house = House::new();
    let token = operators(&house).await;
    let wish = |json: &str| send_json(&house, "POST", "/api/v1/plans", &token, json);
    assert_eq!(send(&house, "POST", "/api/v1/plans", &token).code, 200);
    assert_eq!(wish("null").code, 200);
    for (unmet, code, kind) in [
        (r#"{"drain": []}"#, 409, "nothing-to-change"),
        (r#"{"weights": "even"}"#, 409, "nothing-to-change"),
        (r#"{"drain": ["nowhere"]}"#, 404, "no-such-link"),
        (r#"{"circuits": {}}"#, 409, "no-better-circuits"),
        (r#"{"circuits": {"ocs9": [[1, 2]]}}"#, 404, "no-such-switch"),
    ] {
        is_problem(&wish(unmet), code, kind);
    }
    for misspelt in [
        "{}",
        "[]",
        r#"{"drain": "leaf0-spine0"}"#,
        r#"{"weights": "heavy"}"#,
        r#"{"circuits": {"ocs0": [[1, 99999]]}}"#,
        r#"{"drain": [], "weights": "even"}"#,
    ] {
        is_problem(&wish(misspelt), 400, "bad-request");
    }
}

#[tokio::test]
async fn approval_names_plan_by_etag() {
    let house = House::new();
    let token = operators(&house).await;
    let approve = |tag: &str| {
        let headers = format!("{token}If-Match: {tag}\r\n");
        send(&house, "POST", "/api/v1/plans/1/approval", &headers)
    };
    // There is none: no client has to look again.
    for tag in ["*", "\"x\"", "W/\"x\", \"y\""] {
        is_problem(&approve(tag), 404, "no-plan");
    }
    for tag in ["x", "\"x", "\"x\" \"y\""] {
        is_problem(&approve(tag), 400, "bad-request");
    }
    let plan = send(&house, "GET", "/api/v1/plans/1", &token);
    is_problem(&plan, 404, "nothing-there");
}

#[tokio::test]
async fn approval_of_unseen_plan_is_refused() {
    let house = House::new();
    let token = operators(&house).await;
    let wanted = serde_json::json!({
        "variant": "recorded = \"fabric.toml\"\nwithout = [\"leaf0-spine0\"]\n",
    });
    let path = "/api/v1/sandbox/plan";
    let offered = send_json(&house, "POST", path, &token, &wanted.to_string()).json();
    let number = &offered["plan"]["generation"];
    let path = format!("/api/v1/plans/{number}");
    let plan = send(&house, "GET", &path, &token);
    let tag = plan.header("etag").expect("it has one").to_owned();
    assert_eq!(tag, offered["plan"]["seal"].to_string());
    let approve = |tag: &str| {
        let headers = format!("{token}If-Match: {tag}\r\n");
        send(&house, "POST", &format!("{path}/approval"), &headers)
    };
    is_problem(&approve("\"x\""), 412, "changed-meanwhile");
    is_problem(&approve(&format!("W/{tag}")), 412, "changed-meanwhile");
    assert_eq!(send(&house, "GET", &path, &token).code, 200);
    // What was seen is what is judged, and no switch is there.
    is_problem(&approve(&format!("\"x\", {tag}")), 422, "unfit");
    let written = send(&house, "GET", "/api/v1/audit", &token).json();
    assert_eq!(written["audit"][0]["seal"], offered["plan"]["seal"]);
}

#[tokio::test]
async fn missing_resource_returns_problem() {
    let house = House::new();
    let token = operators(&house).await;
    let asked = |method, path: &str| send(&house, method, path, &token);
    is_problem(&asked("GET", "/api/v1/secrets"), 404, "nothing-there");
    is_problem(&asked("GET", "/api/v1/history/7"), 404, "nothing-there");
    is_problem(
        &asked("GET", "/api/v1/explanations/h0"),
        404,
        "nothing-there",
    );
    is_problem(&asked("GET", "/api/v1/explanations/x"), 404, "no-such-host");
    let before_all = "/api/v1/past?at=1971-01-01T00:00:00Z";
    is_problem(&asked("GET", before_all), 404, "nothing-there");
    let no_host = "/api/v1/traces?from=h0&to=h99";
    is_problem(&asked("GET", no_host), 404, "no-such-host");
    let never = "/api/v1/history/7/taking-back";
    is_problem(&asked("POST", never), 409, "no-way-back");
    is_problem(&asked("DELETE", "/api/v1/status"), 405, "no-such-method");
    for path in [
        "history/x",
        "history/-1",
        "history/99999999999999999999999",
        "history?before=x",
        "history?after=1",
        "traces",
        "traces?from=h0",
        "traces?from=h0&to=h1&port=65536",
        "traces?from=h0&to=h1&protocol=sctp",
        "traces?from=h0&to=h1&else=1",
        "past",
        "past?at=2026-11-20T14:00:00Z&to=1h",
    ] {
        is_problem(
            &asked("GET", &format!("/api/v1/{path}")),
            400,
            "bad-request",
        );
    }
    for at in ["", "yesterday", "2999-01-01T00:00:00Z"] {
        let never = asked("GET", &format!("/api/v1/past?at={at}"));
        is_problem(&never, 422, "no-such-moment");
    }
    is_problem(
        &asked("POST", "/api/v1/plans/x/approval"),
        400,
        "bad-request",
    );
}

/// As `reweave apply` asks it with the same words.
#[tokio::test]
async fn approval_can_be_forced() {
    let house = House::overheard();
    let token = operators(&house).await;
    let approve = |number: u32, query: &str| {
        let path = format!("/api/v1/plans/{number}/approval{query}");
        send(&house, "POST", &path, &token)
    };
    let asked = [
        ("", "{\"apply\":{\"generation\":1}}"),
        ("?force=false&now=false", "{\"apply\":{\"generation\":2}}"),
        ("?force=true", "{\"apply-anyway\":{\"generation\":3}}"),
        (
            "?now=true",
            "{\"apply-now\":{\"generation\":4,\"anyway\":false}}",
        ),
        (
            "?force=true&now=true",
            "{\"apply-now\":{\"generation\":5,\"anyway\":true}}",
        ),
    ];
    for (number, (query, report)) in (1..).zip(asked) {
        is_problem(&approve(number, query), 404, "no-plan");
        house.recorded(report);
    }
    for query in ["?force=perhaps", "?force", "?now=1", "?anyway=true"] {
        is_problem(&approve(1, query), 400, "bad-request");
    }
}

#[tokio::test]
async fn only_operators_run_maintenance_by_stages() {
    let house = House::new();
    let (operator, viewer) = (operators(&house).await, viewers(&house).await);
    let spine = "/api/v1/maintenance/spine0";
    let brought = |who: &str, path: &str, json: &str| send_json(&house, "PUT", path, who, json);
    let draining = r#"{ "stage": "draining" }"#;
    is_problem(&brought(&viewer, spine, draining), 403, "not-allowed");
    let end = send(&house, "DELETE", spine, &operator);
    is_problem(&end, 404, "not-under-maintenance");
    let nowhere = "/api/v1/maintenance/spine9";
    let refusal = brought(&operator, nowhere, draining);
    is_problem(&refusal, 404, "no-such-switch");
    for wrong in [
        "",
        "{",
        "{}",
        r#"{ "stage": "over" }"#,
        r#"{ "stage": "draining", "else": 1 }"#,
    ] {
        is_problem(&brought(&operator, spine, wrong), 400, "bad-request");
    }
    let planned = brought(&operator, spine, draining);
    assert_eq!(planned.code, 202, "{}", planned.body);
    let generation = &planned.json()["plan"]["generation"];
    let place = format!("/api/v1/history/{generation}");
    assert_eq!(planned.header("location"), Some(place.as_str()));
    let record = send(&house, "GET", &place, &operator).json();
    assert_eq!(record["outcome"], "offered");
    let status = send(&house, "GET", "/api/v1/status", &operator).json();
    assert_eq!(status["maintenance"][0]["name"], "spine0");
    assert_eq!(status["maintenance"][0]["stage"], "draining");
    let take_over = "/api/v1/maintenance/spine0/take-over";
    is_problem(
        &send(&house, "POST", take_over, &viewer),
        403,
        "not-allowed",
    );
    let taken = send(&house, "POST", take_over, &operator);
    assert_eq!(taken.code, 204, "{}", taken.body);
    let end = send(&house, "DELETE", spine, &operator);
    assert_eq!(end.code, 204, "{}", end.body);
    let status = send(&house, "GET", "/api/v1/status", &operator).json();
    assert_eq!(status["maintenance"], serde_json::json!([]));
    let none = send(&house, "POST", take_over, &operator);
    is_problem(&none, 404, "not-under-maintenance");
}

#[tokio::test]
async fn host_without_job_cannot_be_frozen() {
    let house = House::new();
    let (operator, viewer) = (operators(&house).await, viewers(&house).await);
    let h0 = "/api/v1/frozen/h0";
    for method in ["PUT", "DELETE"] {
        is_problem(&send(&house, method, h0, &viewer), 403, "not-allowed");
    }
    is_problem(&send(&house, "PUT", h0, &operator), 404, "no-job");
    let thawed = send(&house, "DELETE", h0, &operator);
    is_problem(&thawed, 409, "nothing-to-change");
    let refusal = send(&house, "PUT", "/api/v1/frozen/h99", &operator);
    is_problem(&refusal, 404, "no-such-host");
}

#[tokio::test]
async fn orchestrators_register_jobs_and_query_hosts() {
    let house = House::new();
    let (operator, viewer) = (operators(&house).await, viewers(&house).await);
    let asked = |method, path: &str| send(&house, method, &format!("/api/v1/{path}"), &operator);
    let gate = asked("GET", "gate?hosts=h[0,2,1]").json();
    assert_eq!(gate["is_good"], false, "no agent is there: {gate}");
    assert_eq!(gate["order"].as_array().unwrap().len(), 3);
    let first = asked("PUT", "jobs/train?hosts=h[0-1]").json();
    assert_eq!(first["hosts"], serde_json::json!(["h0", "h1"]));
    assert_eq!(asked("PUT", "jobs/train?hosts=h[0-1]").code, 200);
    let other = asked("PUT", "jobs/train?hosts=h[0-2]");
    is_problem(&other, 409, "other-job");
    assert!(
        other.body.contains("on h0, h1, not on h0, h1, h2"),
        "{}",
        other.body
    );
    let phase = asked("PUT", "jobs/train/phase?name=gradients&ring_gbps=0.5").json();
    assert_eq!(phase["phase"]["ring_bits_per_s"], 500_000_000);
    let started = asked("POST", "jobs/train/start");
    assert_eq!(started.code, 200, "nothing has begun");
    let started = started.json();
    assert_eq!(started["generation"], serde_json::Value::Null);
    assert!(
        started["because"]
            .as_str()
            .unwrap()
            .contains("no finding that a plan could fix"),
        "{started}"
    );
    let listed = send(&house, "GET", "/api/v1/jobs", &viewer).json();
    assert_eq!(listed["registered"][0]["job"], "train");
    is_problem(
        &send(&house, "DELETE", "/api/v1/jobs/train", &viewer),
        403,
        "not-allowed",
    );
    for _ in 0..2 {
        assert_eq!(asked("DELETE", "jobs/train").code, 204);
    }
    is_problem(&asked("POST", "jobs/train/start"), 404, "not-registered");
    is_problem(&asked("PUT", "jobs/train?hosts=h[3-1]"), 422, "bad-job");
    is_problem(&asked("PUT", "jobs/train?hosts=h0,h0"), 422, "bad-job");
    let phase = "jobs/train/phase?name=a&ring_gbps=-1";
    is_problem(&asked("PUT", phase), 422, "bad-job");
    let nothing = asked("GET", "nope");
    is_problem(&nothing, 404, "nothing-there");
    assert!(
        nothing.body.contains("no resource at /api/v1/nope"),
        "{}",
        nothing.body
    );
    is_problem(&asked("PUT", "jobs/train?hosts=h9"), 404, "no-such-host");
    is_problem(&asked("PUT", "jobs/train"), 400, "bad-request");
}

#[tokio::test]
async fn matching_etag_returns_not_modified() {
    let house = House::new();
    let token = operators(&house).await;
    let first = send(&house, "GET", "/api/v1/fabric", &token);
    let held = format!(
        "{token}If-None-Match: {}\r\n",
        first.header("etag").unwrap()
    );
    let again = send(&house, "GET", "/api/v1/fabric", &held);
    assert_eq!((again.code, again.body.as_str()), (304, ""));
    let other = format!("{token}If-None-Match: \"x\"\r\n");
    assert_eq!(send(&house, "GET", "/api/v1/fabric", &other).code, 200);
}

/// One look is good for many, but not for a client that has decided something since.
#[tokio::test]
async fn changes_are_visible_at_once() {
    let house = House::new();
    let (operator, viewer) = (operators(&house).await, viewers(&house).await);
    let spine = "/api/v1/maintenance/spine0";
    let shown = |who: &str| {
        let status = send(&house, "GET", "/api/v1/status", who).json();
        status["maintenance"].as_array().unwrap().len()
    };
    for _ in 0..5 {
        assert_eq!(shown(&viewer), 0);
        let draining = r#"{ "stage": "draining" }"#;
        let began = send_json(&house, "PUT", spine, &operator, draining);
        assert_eq!(began.code, 202, "{}", began.body);
        assert_eq!([shown(&operator), shown(&viewer)], [1, 1]);
        let ended = send(&house, "DELETE", spine, &operator);
        assert_eq!(ended.code, 204, "{}", ended.body);
    }
}

#[tokio::test]
async fn concurrent_status_requests_share_one_look() {
    let house = House::overheard();
    let token = viewers(&house).await;
    house.status_when("it leads", |_| true).await;
    let looks = |until: &str| {
        house.recorded(until);
        let recorded = std::fs::read_to_string(house.path("recording")).unwrap();
        recorded.matches("\"status\"").count()
    };
    for burst in 1..100 {
        let mark = |number| {
            send(&house, "GET", &format!("/api/v1/history/{number}"), &token);
            looks(&format!("\"generation\":{number}"))
        };
        let before = mark(burst * 2);
        for _ in 0..10 {
            assert_eq!(send(&house, "GET", "/api/v1/status", &token).code, 200);
        }
        // On a machine that takes a second for each, another burst shows it.
        if mark(burst * 2 + 1) - before < 10 {
            return;
        }
    }
    panic!("each is a look of its own");
}

/// What machines watch is what people were shown, and is asked for once.
#[tokio::test]
async fn scrapes_and_page_share_one_look() {
    let house = House::overheard();
    let token = viewers(&house).await;
    house.status_when("it leads", |_| true).await;
    let asked = |until: u32| {
        send(&house, "GET", &format!("/api/v1/history/{until}"), &token);
        house.recorded(&format!("\"generation\":{until}"));
        let recorded = std::fs::read_to_string(house.path("recording")).unwrap();
        ["status", "imbalance", "diagnose", "jobs"]
            .map(|kind| recorded.matches(&format!("\"request\":\"{kind}\"")).count())
    };
    for burst in 1..100 {
        let before = asked(burst * 2);
        assert_eq!(send(&house, "GET", "/api/v1/status", &token).code, 200);
        for _ in 0..20 {
            let scraped = send(&house, "GET", "/metrics", "").body;
            assert!(scraped.contains("\nreweave_findings{"), "{scraped}");
        }
        let after = asked(burst * 2 + 1);
        assert!(after.iter().all(|&times| times > 0), "{after:?}");
        // On a machine that takes seconds for these, another burst shows it.
        if before
            .iter()
            .zip(&after)
            .all(|(before, after)| after - before <= 1)
        {
            return;
        }
    }
    panic!("each is a look of its own");
}

/// Restarts keep it, being revoked ends it, and no token makes another.
#[tokio::test]
async fn token_lasts_until_maker_is_revoked() {
    let mut house = House::new();
    let token = viewers(&house).await;
    house.restart();
    house.status_when("it leads again", |_| true).await;
    assert_eq!(send(&house, "GET", "/api/v1/me", &token).code, 200);
    let vic = Member::new(Role::Viewer, "vic");
    ask(&house.operator().await, &Request::Revoke { member: vic }).await;
    is_problem(
        &send(&house, "GET", "/api/v1/me", &token),
        401,
        "no-visitor",
    );
    let (_, too_long) = visit(&house, &house.operator, 13 * ONE_HOUR).await;
    assert!(
        matches!(too_long, Response::Refused(Refused::NoVisit { .. })),
        "{too_long:?}"
    );
}

/// Frames come twice a second.
const FRAME_TIMEOUT: Duration = Duration::from_mins(3);

/// The next line of the stream that begins so; none when the stream has ended.
fn line(stream: &mut impl BufRead, beginning: &str) -> Option<String> {
    let lines = stream.lines().map(Result::unwrap);
    let mut wanted = lines.filter(|line| line.starts_with(beginning));
    wanted.next()
}

#[tokio::test]
async fn event_stream_ends_on_revocation() {
    let house = House::new();
    let token = viewers(&house).await;
    let mut stream = TcpStream::connect(house.http).unwrap();
    let request =
        format!("GET /api/v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream.set_read_timeout(Some(FRAME_TIMEOUT)).unwrap();
    let mut stream = BufReader::new(stream);
    assert_eq!(line(&mut stream, "event:").unwrap(), "event: status");
    let data = line(&mut stream, "data:").unwrap();
    let status: serde_json::Value = serde_json::from_str(&data["data: ".len()..]).unwrap();
    assert_eq!(status["generation"], 0);
    let agent = house.member(Role::Agent, "h0");
    let _session = soon(house.connect(&agent)).await.unwrap();
    let comes = |data: &str| data.contains("\"build\":\"") && data.contains("\"node\":\"h0\"");
    while !comes(&line(&mut stream, "data:").expect("the stream goes on")) {}
    let vic = Member::new(Role::Viewer, "vic");
    ask(&house.operator().await, &Request::Revoke { member: vic }).await;
    while line(&mut stream, "data:").is_some() {}
}

#[tokio::test]
async fn page_loads_only_local_content() {
    let house = House::new();
    house.status_when("it leads", |_| true).await;
    let page = send(&house, "GET", "/", "");
    assert_eq!(page.code, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let mut parts = vec!["/".to_owned()];
    let mut seen = 0;
    while let Some(path) = parts.get(seen).cloned() {
        seen += 1;
        let part = send(&house, "GET", &path, "");
        assert_eq!(part.code, 200, "{path}");
        assert!(
            !part.body.contains("://") || part.body.contains("www.w3.org"),
            "{path}"
        );
        for found in mentioned(&part.body) {
            if !parts.contains(&found) {
                parts.push(found);
            }
        }
    }
    assert!(seen > 10, "{parts:?}");
}

/// What a part of the page wants besides itself.
fn mentioned(text: &str) -> Vec<String> {
    let quoted = text.split('"').skip(1).step_by(2);
    let wanted = quoted.filter_map(|word| {
        let own = word
            .strip_prefix("./")
            .map(|name| format!("/assets/{name}"));
        own.or_else(|| word.starts_with("/assets/").then(|| word.to_owned()))
    });
    wanted.collect()
}

#[tokio::test]
async fn token_scheme_is_case_insensitive() {
    let house = House::new();
    let token = operators(&house).await;
    let code = |scheme: &str| {
        let header = token.replacen("Bearer ", scheme, 1);
        send(&house, "GET", "/api/v1/me", &header).code
    };
    for scheme in ["Bearer ", "bearer ", "BEARER  "] {
        assert_eq!(code(scheme), 200, "{scheme}");
    }
    for scheme in ["Basic ", "Bearer", ""] {
        assert_eq!(code(scheme), 401, "{scheme}");
    }
}

#[tokio::test]
async fn refused_bodies_name_no_types() {
    let house = House::new();
    let token = operators(&house).await;
    for (method, path) in [
        ("POST", "/api/v1/plans"),
        ("PUT", "/api/v1/maintenance/spine0"),
        ("PATCH", "/api/v1/policy"),
    ] {
        for body in ["\"x\"", "7"] {
            let answer = send_json(&house, method, path, &token, body);
            is_problem(&answer, 400, "bad-request");
            let detail = answer.json()["detail"].to_string();
            let is_plain = detail.contains("expected an object") && !detail.contains("struct");
            assert!(is_plain, "{method} {path}: {detail}");
        }
    }
}
