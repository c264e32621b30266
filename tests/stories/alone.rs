//! In automatic mode nobody needs to be awake.

use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::operator::{Mode, Outcome};
use reweave_tests::{Job, Leadership, Progress};

use crate::needs::trial;
use crate::play::{STAGE, ended, led, must, slowest_over};

/// From the first byte of the colliding flows to the victim's new rate.
const REPAIRED_WITHIN: Duration = Duration::from_secs(5);
const LEAST_GAIN: f64 = 1.8;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "the_coordinator_mends_a_collision_alone_within_five_seconds",
        STAGE,
        mended_alone,
    )]
}

fn mended_alone() {
    let auto = Leadership {
        auto: true,
        ..Leadership::default()
    };
    let stage = led(&auto);
    let mut job = must(stage.job("train"));
    // Both flows could not have this rate on one uplink of 200 Mb/s.
    must(job.wait_until("it is mended", |progress| progress.slowest_mbps() > 150.0));
    let repaired = repaired_at(&job);
    let record = ended(&stage);
    let after = slowest_over(&mut job, Duration::from_secs(3));
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    assert_eq!(
        (record.proposed_by.as_str(), record.approved_by.as_deref()),
        ("policy", Some("policy"))
    );
    assert_eq!(must(stage.operator().status()).mode, Mode::Auto);
    let collided = slowest_before(&job, repaired);
    let report = must(job.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
    let stall_ms = report.longest_stall_ms().expect("both ends have reported");
    assert!(stall_ms <= 250.0, "{report:#?}");
    eprintln!(
        "repaired {:.2} s after the job began; {collided:.1} -> {after:.1} Mb/s ({:.2} times), \
         longest stall {:.0} ms",
        repaired.as_secs_f64(),
        after / collided,
        stall_ms
    );
    assert!(after / collided >= LEAST_GAIN);
    assert!(repaired <= REPAIRED_WITHIN, "{repaired:?}");
}

/// When the slowest flow first had its new rate.
fn repaired_at(job: &Job) -> Duration {
    let progress = job.progress();
    let first = progress
        .iter()
        .find(|progress| progress.slowest_mbps() > 150.0);
    let first = first.expect("that was waited for");
    Duration::from_secs_f64(first.at_ms / 1e3)
}

/// The rate of the slowest flow while they collided: after they have begun, before the repair.
fn slowest_before(job: &Job, repaired: Duration) -> f64 {
    let began_ms = 1000.0;
    let ended_ms = repaired.as_secs_f64() * 1e3 - 750.0;
    let during = |progress: &Progress| (began_ms..ended_ms).contains(&progress.at_ms);
    let rates: Vec<_> = job.progress().into_iter().filter(during).collect();
    let sum: f64 = rates.iter().map(Progress::slowest_mbps).sum();
    sum / rates.len() as f64
}
