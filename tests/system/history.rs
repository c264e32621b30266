//! What was recorded can be played again: first as it was, then otherwise.

use std::fs;
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_tests::{Leadership, Stage};
use serde_json::Value;

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, collide, led, must, slowest_over};
use crate::timed::timed_value;

/// Long enough for several rows of one second each.
const WATCH_TIME: Duration = Duration::from_secs(10);
/// How far the model's rates may be from those that were measured.
const MAX_RELATIVE_ERROR: f64 = 0.15;
/// Less than this is no flow of the job.
const MIN_JOB_BYTES: f64 = 10e6;
/// Packets of the lab, and what of them its links count that is no payload.
const PACKET_OPTIONS: [&str; 4] = ["--packet-bytes", "1514", "--header-bytes", "66"];

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "timed_recorded_collision_is_replayed",
        STAGE_NEEDS,
        || {
            timed_value("a replayed collision", replayed, |figures| {
                figures.worst_error <= MAX_RELATIVE_ERROR && (1.7..2.1).contains(&figures.gain)
            });
        },
    )]
}

#[derive(Debug)]
struct Figures {
    worst_error: f64,
    gain: f64,
}

fn replayed() -> Figures {
    let mut stage = led(&Leadership::default());
    let mut job = collide(&stage);
    slowest_over(&mut job, WATCH_TIME);
    must(job.stop());
    // Asked to end, it writes down what it still holds.
    must(must(stage.coordinator()).end());
    let same = "recorded = \"two-leaves.toml\"\n";
    let apart = format!(
        "{same}{}",
        ways([["h0", "spine0", "h4"], ["h1", "spine1", "h5"]])
    );
    let as_it_was = asked(&stage, "same.toml", same);
    let otherwise = asked(&stage, "apart.toml", &apart);
    for answer in [&as_it_was, &otherwise] {
        assert_eq!(bursts(answer).len(), 2, "one of each flow: {answer:#}");
    }
    let rate = |answer: &Value, key: &str| {
        let rates = bursts(answer).into_iter().map(|burst| figure(&burst[key]));
        rates.fold(f64::INFINITY, f64::min)
    };
    let error = |burst: &Value| {
        (figure(&burst["as_it_was_mbps"]) / figure(&burst["measured_mbps"]) - 1.0).abs()
    };
    assert_eq!(
        rate(&as_it_was, "variant_mbps"),
        rate(&as_it_was, "as_it_was_mbps")
    );
    Figures {
        worst_error: bursts(&as_it_was).iter().map(error).fold(0.0, f64::max),
        gain: rate(&otherwise, "variant_mbps") / rate(&otherwise, "as_it_was_mbps"),
    }
}

fn ways(pairs: [[&str; 3]; 2]) -> String {
    let way = |[from, spine, to]: [&str; 3]| {
        format!("[[way]]\nnodes = [\"{from}\", \"leaf0\", \"{spine}\", \"leaf1\", \"{to}\"]\n")
    };
    pairs.map(way).concat()
}

fn asked(stage: &Stage, name: &str, variant: &str) -> Value {
    let file = stage.path(name);
    fs::write(&file, variant).expect("the stage's folder can be written to");
    let mut command = Command::new(stage.programs().reweave());
    command
        .args(["sim", "history", "2m/2m", "--output", "json", "--with"])
        .arg(file);
    command
        .arg("--history")
        .arg(stage.path("data/history"))
        .args(PACKET_OPTIONS);
    let output = command.output().expect("reweave runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("an answer is JSON")
}

/// Those of the job.
fn bursts(answer: &Value) -> Vec<Value> {
    let all = answer["bursts"]
        .as_array()
        .expect("bursts are a list")
        .iter();
    let large = all.filter(|burst| figure(&burst["bytes"]) > MIN_JOB_BYTES);
    large.cloned().collect()
}

fn figure(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no figure"))
}
