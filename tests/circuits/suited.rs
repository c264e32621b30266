//! Circuits that the product chooses: the rings of two jobs share every lane until each job has fibres of its own.

use libtest_mimic::Trial;
use reweave_common::operator::{Outcome, Plan, Record};
use reweave_tests::{Job, Progress, STAGE_TIMEOUT, Setting, wait_for};
use serde::Deserialize;

use crate::LAB_NEEDS;
use crate::cluster::Cluster;
use crate::needs::trial;
use crate::scene::{Over, Scene};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "circuits_move_to_where_jobs_send",
        LAB_NEEDS,
        are_moved,
    )]
}

const RING_SETTING: Setting<'static> = Setting {
    scenario: include_str!("ring-jobs.toml"),
    fabric: include_str!("../demo/clusters/ring.toml"),
};
const JOB_NAMES: [&str; 2] = ["even", "odd"];
/// Iterations become at least this many times faster.
const MIN_GAIN: f64 = 1.3;
/// The tolerance between the period that agents detect and the ranks' own times, which are taken a little later.
const MAX_RELATIVE_ERROR: f64 = 0.25;

#[derive(Deserialize)]
struct Answer {
    plan: Plan,
}

fn are_moved() {
    let scene = Scene::of(RING_SETTING, Over::Restconf);
    // Hosts that forward would otherwise be taken for switches, whose traffic has no iteration period.
    let cluster = Cluster::of_agents(scene, &["--role", "relay"]);
    let idle = cluster.reweave(&["plan", "circuits"]);
    let said = String::from_utf8_lossy(&idle.stderr).into_owned();
    assert!(said.contains("no link is full"), "{said}");
    let mut jobs = JOB_NAMES.map(|job| cluster.scene.0.job(job).expect("it starts"));
    let before_ms = jobs.each_mut().map(|job| iteration_ms(job, 20));
    let plan = suited(&cluster);
    let record = cluster.apply(&plan);
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    let after_ms = jobs.each_mut().map(|job| iteration_ms(job, 20));
    eprintln!(
        "took {before_ms:.0?} ms, and takes {after_ms:.0?} ms: {:?}",
        record.iterations
    );
    for (before_ms, after_ms) in before_ms.into_iter().zip(after_ms) {
        assert!(after_ms * MIN_GAIN < before_ms);
    }
    are_judged(&record, after_ms);
    let again = cluster.reweave(&["plan", "circuits"]);
    assert_eq!(again.status.code(), Some(1), "what suits stays: {again:?}");
    for job in jobs {
        let report = job.stop().expect("the job ends");
        assert!(report.kept_all_sessions(), "{report:?}");
    }
}

/// Checks the verdict: each job's own iterations were measured before and after, although hosts forward traffic of the
/// other job.
fn are_judged(record: &Record, after_ms: [f64; 2]) {
    assert_eq!(record.iterations.len(), JOB_NAMES.len(), "{record:#?}");
    let mut jobs = ["h0 and 2 others", "h1 and 2 others"]
        .into_iter()
        .zip(after_ms);
    jobs.try_for_each(|(job, after_ms)| {
        let reports = record.iterations.iter().find(|it| it.job == job)?;
        let measured_ms = reports.measured_ms?;
        let is_near = (measured_ms / after_ms - 1.0).abs() <= MAX_RELATIVE_ERROR;
        (is_near && measured_ms < reports.before_ms).then_some(())
    })
    .unwrap_or_else(|| {
        panic!(
            "{after_ms:.0?} ms is what ranks say: {:#?}",
            record.iterations
        )
    });
}

/// The proposed plan, once enough flows and the iteration periods of both jobs are measured.
fn suited(cluster: &Cluster) -> Plan {
    let found = wait_for("circuits suit it better", STAGE_TIMEOUT, || {
        let output = cluster.reweave(&["plan", "circuits"]);
        let answer = serde_json::from_slice::<Answer>(&output.stdout).ok();
        let plan = answer.map(|it| it.plan);
        Ok(plan.filter(|it| it.iterations.len() == JOB_NAMES.len()))
    });
    found.unwrap_or_else(|error| {
        let values = ["jobs", "links", "trace", "diagnose"];
        let values = values.map(|word| cluster.reweave(&[word]).stdout);
        let values = values.map(|it| String::from_utf8_lossy(&it).into_owned());
        panic!("{error}: {}", values.join("\n"))
    })
}

/// The mean of the next `count` iterations.
fn iteration_ms(job: &mut Job, count: usize) -> f64 {
    let first = job.latest().map_or(0, |it| it.iterations);
    let enough = |it: &Progress| it.iterations >= first + count;
    job.wait_until("it goes on", enough).expect("it goes on");
    let taken = job.progress().into_iter();
    let taken = taken
        .filter(|it| it.iterations > first)
        .filter_map(|it| it.iteration_ms);
    let taken: Vec<_> = taken.collect();
    taken.iter().sum::<f64>() / taken.len().max(1) as f64
}
