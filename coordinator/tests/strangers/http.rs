//! Health and metrics, as machines read them.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use reweave_link::Role;

use super::house::{House, soon};

/// What came back.
pub(crate) struct Answer {
    pub(crate) code: u16,
    head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut named = lines.filter(|(header, _)| header.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends a request without a body, with these headers, and reads all that comes back.
pub(crate) fn send(house: &House, method: &str, path: &str, headers: &str) -> Answer {
    send_body(house.http, method, path, headers, "")
}

/// Coordinators find each other first, and answer nothing but whether they live until then.
pub(crate) fn is_ready(http: SocketAddr) -> bool {
    send_body(http, "GET", "/readyz", "", "").code == 200
}

/// The same with JSON, or what is taken for it.
pub(crate) fn send_json(
    house: &House,
    method: &str,
    path: &str,
    headers: &str,
    json: &str,
) -> Answer {
    let length = json.len();
    let headers =
        format!("{headers}Content-Type: application/json\r\nContent-Length: {length}\r\n");
    send_body(house.http, method, path, &headers, json)
}

fn send_body(http: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let mut stream = TcpStream::connect(http).unwrap();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n{body}");
    // What is too long is answered before it is read to its end.
    match stream.write_all(request.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap();
    Answer {
        code: code.parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

fn get(house: &House, path: &str) -> (u16, String) {
    let answer = send(house, "GET", path, "");
    (answer.code, answer.body)
}

#[tokio::test]
async fn coordinator_is_healthy_and_ready() {
    let house = House::new();
    assert_eq!(get(&house, "/healthz"), (200, "ok\n".into()));
    assert_eq!(get(&house, "/readyz"), (200, "ready\n".into()));
    assert_eq!(get(&house, "/secrets").0, 404);
}

#[tokio::test]
async fn metrics_parse_as_prometheus() {
    let house = House::new();
    let agent = house.member(Role::Agent, "h0");
    let _session = soon(house.connect(&agent)).await.unwrap();
    house
        .status_when("h0 is described", |status| {
            status.agents[0].certificate_left_s.is_some()
        })
        .await;
    let (_, metrics) = get(&house, "/metrics");
    for line in [
        "reweave_agents{state=\"unseen\"} 7",
        "reweave_route_generation 0",
        "reweave_agent_certificate_left_seconds{node=\"h0\"} 8",
        "reweave_coordinator_certificate_left_seconds{coordinator=\"c0\",number=\"1\"} 8",
        "reweave_leader_number 1",
        "reweave_coordinators{role=\"voter\"} 1",
        "reweave_coordinators{role=\"learner\"} 0",
        "reweave_sessions{role=\"agent\"} 1",
        "reweave_refused_peers_total{reason=\"revoked\"} 0",
        "reweave_log_write_seconds_bucket{le=\"+Inf\"} ",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

/// With its type and labels.
#[tokio::test]
async fn each_metric_is_documented() {
    let house = House::new();
    house.status_when("it leads", |_| true).await;
    let (_, metrics) = get(&house, "/metrics");
    let manual = include_str!("../../../docs/metrics.md");
    let (mut row, mut families) = ("", 0);
    for line in metrics.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').unwrap();
            let cells = format!("| `{name}` | {kind} |");
            let found = manual.lines().find(|row| row.starts_with(&cells));
            row = found.unwrap_or_else(|| panic!("docs/metrics.md has no row {cells}"));
            families += 1;
        }
        for label in labels(line) {
            let cell = format!("`{label}`");
            assert!(row.contains(&cell), "{label} is not in {row}");
        }
    }
    assert!(families > 30, "{families}");
}

/// Of a sample, their names; of a comment, none.
fn labels(line: &str) -> impl Iterator<Item = &str> {
    let sample = line.split_once('{').filter(|_| !line.starts_with('#'));
    let inside = sample.and_then(|(_, rest)| rest.rsplit_once('}'));
    let inside = inside.map_or("", |(inside, _)| inside);
    let labels = inside.split(',').filter_map(|label| label.split_once('='));
    labels.map(|(name, _)| name)
}
