//! Drained links under running jobs: all flows leave them, no new flow uses them, and where a flow would become
//! slower, they are used again.

use std::fs;
use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::operator::{FlowOutcome, Outcome};
use reweave_common::units::Rate;
use reweave_tests::{Job, Stage};
use serde::Deserialize;

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, WATCH_TIME, ended, must};
use crate::scene::{carried_out, led, rollback_on_halved_rates, sent_bytes};

/// Uplinks have room for two hosts, and not for four.
pub(crate) const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4\n\
    host_gbps = 0.04\nuplink_gbps = 0.1\n";
pub(crate) const DRAINED_LINK: &str = "leaf0-spine1";
/// More than probes send, and far less than a job sends.
pub(crate) const MAX_IDLE_BYTES: u64 = 10_000;

pub(crate) fn tests() -> Vec<Trial> {
    let name = "drained_link_carries_nothing_until_needed";
    vec![trial(name, STAGE_NEEDS, drained)]
}

pub(crate) fn job(name: &str, hosts: [u32; 4]) -> String {
    let [a, b, c, d] = hosts.map(|host| format!("\"h{host}\""));
    format!(
        "[[job]]\nname = \"{name}\"\npattern = \"streams\"\nhosts = [{a}, {b}, {c}, {d}]\n\
         pairs = [[0, 2], [1, 3]]\nbytes = 4_000_000\ncompute_ms = 5\niterations = 1_000_000\n\
         paths = \"spread\"\n"
    )
}

/// The record of a plan that drains exactly these links.
pub(crate) fn drain(stage: &Stage, links: &[&str]) -> Outcome {
    carried_out(stage, &[&["plan", "drain"], links].concat(), false)
}

/// How many bytes cross the link meanwhile, both ways.
pub(crate) fn carried(stage: &Stage, job: &mut Job) -> u64 {
    let ends = [("leaf0", "spine1"), ("spine1", "leaf0")];
    let count = |(node, to)| sent_bytes(stage, node, to);
    let sum = || ends.into_iter().map(count).sum::<u64>();
    let before = sum();
    watched(job, WATCH_TIME);
    sum() - before
}

/// Lets the job run for this time, and for at least one iteration: while a job stands still, no link carries its
/// traffic.
pub(crate) fn watched(job: &mut Job, duration: Duration) {
    let before = job.latest().map_or(0, |progress| progress.iterations);
    must(job.watch(duration));
    must(job.wait_until("it goes on", |progress| progress.iterations >= before + 2));
}

pub(crate) fn sends(stage: &Stage, name: &str) -> Job {
    let job = must(stage.job(name));
    must(job.wait_until("it sends", |progress| {
        progress.iterations >= 2 && progress.slowest_mbps() > 20.0
    }));
    job
}

#[derive(Debug, Deserialize)]
struct Placed {
    order: Vec<String>,
    remarks: Vec<String>,
}

/// `reweave plan ranks` avoids the drained link.
fn places_without_it(stage: &Stage) {
    let job = stage.path("ranks.toml");
    fs::write(&job, "model = \"vgg16\"\nbatch = 16\n").expect("a file can be made");
    let placed: Placed =
        must((stage.operator()).ask(&["plan", "ranks", "--job", &job.to_string_lossy()]));
    println!("{placed:?}");
    assert_eq!(placed.order.len(), 8);
    let said = format!("{DRAINED_LINK} is left out: it is down, or drained");
    assert!(placed.remarks.contains(&said), "{placed:?}");
}

/// `reweave plan nccl` does not count the drained link.
fn is_tuned_without_it(stage: &Stage) {
    let words = ["plan", "tuner", "--most-bytes", "4096"];
    let output = stage.operator().command(&words).output();
    let output = output.expect("it can be run");
    let [table, said] =
        [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    println!("{table}{said}");
    let rows: Vec<_> = table
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    // A line for all hosts with one rank each.
    let is_row = |line: &&str| line.starts_with("allreduce,") && line.contains(",8,8,");
    assert!(!rows.is_empty() && rows.iter().all(is_row), "{table}");
    assert!(
        said.contains(&format!("{DRAINED_LINK} is left out")),
        "{said}"
    );
}

/// Checks the rates of the four flows on one link against the prediction.
fn are_as_predicted(flows: &[FlowOutcome]) {
    let is_so = |it: &&FlowOutcome| {
        let (predicted, measured) = it.predicted_bits_per_s.zip(it.measured_bits_per_s)?;
        let [low, high] = predicted;
        let [low, high, measured] = [low, high, measured].map(Rate::mbps);
        Some((0.9 * low..=1.1 * high).contains(&measured))
    };
    let so = flows.iter().filter(|it| is_so(it) == Some(true));
    assert_eq!(so.count(), 4, "{flows:#?}");
}

fn drained() {
    let jobs = job("first", [0, 1, 4, 5]) + &job("second", [2, 3, 6, 7]);
    let stage = led(FABRIC, &jobs, &rollback_on_halved_rates());
    let mut first = sends(&stage, "first");
    assert!(
        carried(&stage, &mut first) > 1_000_000,
        "one of two goes there"
    );
    assert_eq!(drain(&stage, &[DRAINED_LINK]), Outcome::Committed);
    let left = carried(&stage, &mut first);
    assert!(left < MAX_IDLE_BYTES, "{left}");
    places_without_it(&stage);
    is_tuned_without_it(&stage);
    let second = must(stage.job("second"));
    let left = carried(&stage, &mut first);
    println!("{left} bytes crossed it");
    assert!(left < MAX_IDLE_BYTES, "new flows keep away: {left}");
    must(second.stop());
    assert_eq!(drain(&stage, &["--none"]), Outcome::Committed);
    let second = sends(&stage, "second");
    assert!(carried(&stage, &mut first) > 1_000_000, "it is back");
    let outcome = drain(&stage, &[DRAINED_LINK]);
    let is_taken_back = matches!(outcome, Outcome::RolledBack { .. });
    assert!(is_taken_back, "four have no room: {outcome:?}");
    assert!(carried(&stage, &mut first) > 1_000_000, "it carries again");
    let outcome = carried_out(&stage, &["plan", "drain", DRAINED_LINK], true);
    assert_eq!(outcome, Outcome::Committed);
    are_as_predicted(&ended(&stage).flows);
    let left = carried(&stage, &mut first);
    assert!(left < MAX_IDLE_BYTES, "drained anyway: {left}");
    for job in [first, second] {
        let report = must(job.stop());
        assert!(report.kept_all_sessions(), "{report:#?}");
    }
}
