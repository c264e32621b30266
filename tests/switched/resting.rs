//! Two jobs that are idle for half of each iteration, with all flows of both on one of two uplinks.

use libtest_mimic::Trial;
use reweave_common::operator::{Finding, Outcome, Plan, Record};
use reweave_tests::{Job, Leadership, STAGE_TIMEOUT, Stage, wait_for};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, ended, must};
use crate::running::after;
use crate::scene::{leaf_spine, led};
use crate::timed::timed_value;

/// In the order of ranks: from rack to rack and back.
const JOB_RANKS: [(&str, [&str; 4]); 2] = [
    ("train", ["h0", "h4", "h1", "h5"]),
    ("tune", ["h2", "h6", "h3", "h7"]),
];
/// The number of measured iterations.
const MEASURED_ITERATIONS: usize = 12;
/// Half of an iteration is idle and stays. With an uplink for each flow, the other half would take half as long
/// without the other job.
const MAX_ITERATION_RATIO: f64 = 0.9;

pub(crate) fn tests() -> Vec<Trial> {
    // Periods need many iterations to be certain: `make soak` runs this.
    let name = "timed_bursty_jobs_are_separated";
    let parted = || {
        timed_value("what is left of iterations", parted, |left| {
            left.iter().all(|it| *it <= MAX_ITERATION_RATIO)
        });
    };
    vec![trial(name, STAGE_NEEDS, parted).with_ignored_flag(true)]
}

fn job(name: &str, hosts: [&str; 4]) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\npattern = \"ring-allreduce\"\nhosts = {hosts:?}\nbytes = 2_000_000\n\
         compute_ms = 400\niterations = 1_000_000\nvia = \"spine0\"\n"
    )
}

/// The new iteration time of each job, relative to the old one.
fn parted() -> [f64; 2] {
    let stage = led(
        &leaf_spine(2, 2, 4),
        &JOB_RANKS.map(|(name, hosts)| job(name, hosts)).concat(),
        &Leadership::default(),
    );
    let jobs = JOB_RANKS.map(|(name, _)| must(stage.job(name)));
    let before = iterations_ms(&jobs);
    let record = carried_out(&stage, &jobs);
    let met = |it: &Finding| matches!(it, Finding::EcmpCollision(_));
    assert!(record.plan.report.findings.iter().any(met), "{record:#?}");
    if record.outcome != Outcome::Committed {
        // On a busy machine, iterations may become longer meanwhile.
        return [1.0; 2];
    }
    let now = iterations_ms(&jobs);
    println!("{before:.0?} ms, and then {now:.0?}");
    for job in jobs {
        assert!(must(job.stop()).kept_all_sessions());
    }
    [now[0] / before[0], now[1] / before[1]]
}

fn iterations_ms(jobs: &[Job; 2]) -> [f64; 2] {
    let first = jobs.each_ref().map(|job| after(job, 1));
    let last = jobs.each_ref().map(|job| after(job, MEASURED_ITERATIONS));
    [0, 1].map(|nth| last[nth].mean_ms_since(first[nth]))
}

/// Until the plan starts, a proposal with newer measurements may replace it.
fn carried_out(stage: &Stage, jobs: &[Job; 2]) -> Record {
    loop {
        let plan = offered(stage, jobs);
        if must(stage.operator().begin(&plan)).code == Some(0) {
            return ended(stage);
        }
    }
}

fn offered(stage: &Stage, jobs: &[Job; 2]) -> Plan {
    must(wait_for("there is a plan", STAGE_TIMEOUT, || {
        // Polling without a pause would disturb the iterations.
        after(&jobs[0], 3);
        stage.operator().plan()
    }))
}
