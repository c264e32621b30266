//! A plan survives a death at any of its log records: it is committed or rolled back as a whole, and soon.

use std::process::Child;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use reweave_common::operator::Outcome;
use reweave_tests::{STAGE_TIMEOUT, Stage, wait_for};

use crate::LAB_NEEDS;
use crate::cluster::{Cluster, PAGE_PORTS};
use crate::needs::trial;
use crate::plans::back_to;
use crate::scene::{Over, Thirds};
use crate::session_jobs::Running;

pub(crate) fn tests() -> Vec<Trial> {
    let name = "crash_at_each_record_finishes_plan";
    vec![trial(name, LAB_NEEDS, killed_at_each).with_ignored_flag(true)]
}

const PLAN_TIMEOUT: Duration = Duration::from_secs(30);
const VICTIMS: [Victim; 3] = [Victim::Leader, Victim::Agent, Victim::Driver];

#[derive(Debug, Clone, Copy)]
enum Victim {
    Leader,
    Agent,
    Driver,
}

impl Victim {
    /// Kills the victims.
    fn dies(self, cluster: &mut Cluster) {
        match self {
            Self::Leader => {
                let place = cluster.kill_leader();
                cluster.start_coordinator(place);
            }
            Self::Agent => {
                cluster.kill_agent("h1");
                cluster.start_agent("h1");
            }
            Self::Driver => {
                cluster.kill_driver();
                cluster.start_driver();
            }
        }
    }
}

fn killed_at_each() {
    let mut cluster = Cluster::up(Over::Restconf);
    let running = Running::begin(&cluster.scene.0);
    let records = records_of_a_plan(&cluster);
    eprintln!("a plan takes {records} records");
    for victim in VICTIMS {
        for record in 1..=records {
            let (outcome, took) = killed_at(&mut cluster, victim, record);
            eprintln!("{victim:?} killed at record {record}: {outcome:?} after {took:.1?}");
            let is_whole = matches!(outcome, Outcome::Committed | Outcome::RolledBack { .. });
            assert!(is_whole && took < PLAN_TIMEOUT);
            cluster.wait_until_known();
            holds_one_of_both(&cluster, &outcome);
            running.go_on(2);
        }
    }
    running.end_without_loss();
}

/// The number of log records of an undisturbed plan.
fn records_of_a_plan(cluster: &Cluster) -> u64 {
    back_to(cluster, Thirds::Across);
    let plan = cluster.plan(Thirds::Along);
    let before = committed(cluster);
    assert_eq!(cluster.apply(&plan).outcome, Outcome::Committed);
    committed(cluster) - before
}

/// The outcome, and its time after the death.
fn killed_at(cluster: &mut Cluster, victim: Victim, record: u64) -> (Outcome, Duration) {
    back_to(cluster, Thirds::Across);
    let plan = cluster.plan(Thirds::Along);
    let mut watch = watch(cluster, committed(cluster) + record);
    cluster.begin(&plan);
    let reached = || Ok(watch.try_wait().expect("it is ours"));
    let reached = wait_for("the plan is so far", STAGE_TIMEOUT, reached);
    reached.unwrap_or_else(|error| panic!("{error}: record {record}"));
    victim.dies(cluster);
    let died = Instant::now();
    (cluster.ended(&plan), died.elapsed())
}

/// Checks that all fibres are as a committed plan leaves them, or as they were before, and that the coordinator knows
/// it.
#[track_caller]
fn holds_one_of_both(cluster: &Cluster, outcome: &Outcome) {
    let held = match outcome {
        Outcome::Committed => Thirds::Along,
        _ => Thirds::Across,
    };
    let status = cluster.status().expect("an answer");
    let circuits = status.opticals[0].circuits.to_string();
    assert_eq!(circuits, held.circuits_in_order(), "{outcome:?}");
}

/// The number of committed log records, by the coordinator that knows most.
fn committed(cluster: &Cluster) -> u64 {
    let said = cluster
        .scene
        .0
        .output(Stage::STATION_NAME, &["sh", "-c", &most_committed()]);
    let said = said.expect("it is reported");
    said.trim().parse().unwrap_or_else(|_| panic!("{said:?}"))
}

/// A process that ends as soon as this many records exist.
fn watch(cluster: &Cluster, records: u64) -> Child {
    let until = format!(
        "until [ \"$({})\" -ge {records} ]; do :; done",
        most_committed()
    );
    let mut watch = cluster.scene.0.inside(Stage::STATION_NAME, "sh");
    watch.args(["-c", &until]);
    watch.spawn().expect("it starts")
}

fn most_committed() -> String {
    let pages = PAGE_PORTS.map(|port| format!("http://127.0.0.1:{port}/metrics"));
    format!(
        "curl -s {} | sed -n 's/^reweave_log_committed_index //p' | sort -n | tail -1",
        pages.join(" ")
    )
}
