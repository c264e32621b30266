//! Traffic of the past, played over HTTP: whoever may look may play, and the cluster is as it was.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::moment::Moment;
use reweave_common::sample::FlowReading;
use reweave_common::units::{Bytes, Rate};
use reweave_history::{Chronicle, Entry, Rules, written};
use serde_json::{Value, json};

use super::api::{is_problem, operators, viewers};
use super::house::House;
use super::http::{Answer, send, send_json};

/// Two share an uplink of 200 Mb/s.
const SHARE: u64 = 100_000_000;

/// A minute ago h0 sent to h2 and h1 to h3, both over spine0, for four seconds.
fn collided(house: &House) -> Moment {
    let folder = house.path("data/history");
    // Whoever writes there waits for it, which the thread of a test must not.
    let written = thread::spawn(move || write(&folder));
    written.join().unwrap()
}

fn write(folder: &Path) -> Moment {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let second = |at: u64| Moment::from_micros((now.as_secs() - 60 + at) * 1_000_000);
    let mut chronicle = Chronicle::open(folder.to_str().unwrap(), Rules::default(), 1).unwrap();
    for at in 0..=4 {
        chronicle.advance(second(at)).unwrap();
        for host in [0, 1] {
            chronicle.observe(second(at), &sent(host, at));
        }
    }
    chronicle.close().unwrap();
    second(0)
}

fn sent(host: u8, at: u64) -> Entry {
    let end = |last, port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port);
    let reading = FlowReading {
        flow: FlowKey {
            protocol: Protocol::Tcp,
            source: end(host, 40_000),
            destination: end(host + 2, 5001),
        },
        bytes: Bytes::new(SHARE / 8 * at),
        rate: Some(Rate::from_bits_per_s(SHARE)),
        rtt: None,
        retransmits: None,
    };
    let [from, to] = [host, host + 2].map(|host| format!("h{host}").into());
    let hops = format!("{from}/0 leaf0/2 spine0/1 leaf1/{host}").into();
    Entry::flow(&from, Some(&to), Some(hops), &reading)
}

fn plays(house: &House, who: &str, from: Moment, variants: &[&str]) -> Answer {
    let variant = |(nth, text): (usize, &&str)| {
        let text = format!("recorded = \"fabric.toml\"\n{text}");
        json!({ "name": format!("v{nth}"), "variant": text })
    };
    let variants: Vec<Value> = variants.iter().enumerate().map(variant).collect();
    let to = written(from + Duration::from_secs(10));
    let asked = json!({ "from": written(from), "to": to, "variants": variants });
    send_json(house, "POST", "/api/v1/sandbox", who, &asked.to_string())
}

/// How long the log is, and what is in force.
fn state(house: &House, token: &str) -> (String, Value) {
    let metrics = send(house, "GET", "/metrics", "").body;
    let index = metrics
        .lines()
        .find(|line| line.starts_with("reweave_log_last_index "));
    let status = send(house, "GET", "/api/v1/status", token).json();
    (index.unwrap().to_owned(), status["generation"].clone())
}

#[tokio::test]
async fn whoever_looks_may_play_and_nothing_is_changed_by_it() {
    let house = House::new();
    let (operator, viewer) = (operators(&house).await, viewers(&house).await);
    let from = collided(&house);
    let before = state(&house, &viewer);
    let apart = "[[way]]\nnodes = [\"h1\", \"leaf0\", \"spine1\", \"leaf1\", \"h3\"]\n";
    let lost = "without = [\"leaf0-spine7\"]\n";
    let played = plays(&house, &viewer, from, &["", apart, lost]);
    assert_eq!(played.code, 200, "{}", played.body);
    let variants = &played.json()["variants"];
    let rate = |nth: usize, side: &str| {
        let compared = &variants[nth]["compared"];
        compared[side]["slowest_mbps"].as_f64().unwrap().round()
    };
    assert_eq!((rate(0, "as_it_was"), rate(0, "variant")), (100.0, 100.0));
    assert_eq!((rate(1, "as_it_was"), rate(1, "variant")), (100.0, 200.0));
    let problem = variants[2]["problem"].as_str().unwrap();
    let says = "v2:2: without: the fabric has no link named \"leaf0-spine7\"";
    assert_eq!(problem, says);
    let drained = json!({ "variant": "recorded = \"f.toml\"\nwithout = [\"leaf0-spine7\"]\n" });
    let promoted = |who: &str| {
        let path = "/api/v1/sandbox/plan";
        send_json(&house, "POST", path, who, &drained.to_string())
    };
    is_problem(&promoted(&viewer), 403, "not-allowed");
    is_problem(&promoted(&operator), 404, "no-such-link");
    assert_eq!(state(&house, &viewer), before);
}

#[tokio::test]
async fn what_cannot_be_played_is_a_problem_that_says_why() {
    let house = House::new();
    let viewer = viewers(&house).await;
    let posted = |json: &str| send_json(&house, "POST", "/api/v1/sandbox", &viewer, json);
    for bad in [
        "",
        "x",
        "{}",
        "[]",
        r#"{"from":"1m","to":"0s","variants":[{}]}"#,
    ] {
        is_problem(&posted(bad), 400, "bad-request");
    }
    let variant = r#"{ "name": "a", "variant": "recorded = 1" }"#;
    let long = format!(r#"{{"from":"3h","to":"0s","variants":[{variant}]}}"#);
    is_problem(&posted(&long), 422, "too-much");
    let wrong = format!(r#"{{"from":"1m","to":"0s","variants":[{variant}]}}"#);
    let told = posted(&wrong).json();
    let problem = told["variants"][0]["problem"].as_str().unwrap();
    assert!(problem.starts_with("a:1: recorded: "), "{problem}");
    let foreign = wrong.replace("recorded = 1", "recorded = \\\"other.toml\\\"");
    let told = posted(&foreign).json();
    let problem = told["variants"][0]["problem"].as_str().unwrap();
    assert!(
        problem.starts_with("\"other.toml\" is none of the files"),
        "{problem}"
    );
    let huge = format!(r#"{{"from":"{}"}}"#, "1".repeat(4 << 20));
    let answer = posted(&huge);
    assert!((400..500).contains(&answer.code), "{}", answer.code);
    let stranger = send_json(&house, "POST", "/api/v1/sandbox", "", &wrong);
    is_problem(&stranger, 401, "no-token");
}
