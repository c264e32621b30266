//! In automatic mode no operator needs to be awake.

use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::operator::{Mode, Outcome};
use reweave_common::time_span::TimeSpan;
use reweave_tests::{Job, Leadership, Progress};

use crate::needs::trial;
use crate::play::{
    MAX_STALL_MS, MIN_GAIN, STAGE_NEEDS, WATCH_TIME, ended, led, must, slowest_over,
};
use crate::timed::timed_value;

/// From the first byte of the colliding flows to the victim's new rate.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(5);
/// What two flows cannot both have on one uplink of 200 Mb/s.
const MIN_UNSHARED_MBPS: f64 = 150.0;
/// Upper bound of the slower of two flows on it.
const MAX_SHARED_MBPS: f64 = 100.0;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "timed_auto_mode_repairs_collision",
        STAGE_NEEDS,
        || {
            timed_value(
                "a collision that is mended alone",
                mended_alone,
                |figures| {
                    figures.repaired <= REPAIR_TIMEOUT
                        && figures.gain >= MIN_GAIN
                        && figures.longest_stall_ms <= MAX_STALL_MS
                },
            );
        },
    )]
}

#[derive(Debug)]
struct Figures {
    repaired: Duration,
    gain: f64,
    longest_stall_ms: f64,
}

fn mended_alone() -> Figures {
    let auto = Leadership {
        auto: true,
        ..Leadership::without_rate_rollback()
    };
    let stage = led(&auto);
    let mut job = must(stage.job("train"));
    must(job.wait_until("it is mended", is_mended));
    let repaired = repaired_at(&job);
    let record = ended(&stage);
    let after = slowest_over(&mut job, WATCH_TIME);
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    assert_eq!(
        (record.proposed_by.as_str(), record.approved_by.as_deref()),
        ("policy", Some("policy"))
    );
    assert_eq!(must(stage.operator().status()).mode, Mode::Auto);
    let collided = slowest_before(&job, repaired);
    let report = must(job.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
    Figures {
        repaired,
        gain: after / collided,
        longest_stall_ms: report.longest_stall_ms().expect("both ends have reported"),
    }
}

fn is_mended(progress: &Progress) -> bool {
    progress.slowest_mbps() > MIN_UNSHARED_MBPS
}

/// When the slowest flow first had its new rate.
fn repaired_at(job: &Job) -> Duration {
    let progress = job.progress();
    let first = progress.iter().find(|progress| is_mended(progress));
    let first = first.expect("that was waited for");
    TimeSpan::from_secs_f64(first.at_ms / 1e3).get()
}

/// The rate of the slowest flow while they collided: after they have begun, before the repair. Where that came too
/// soon to see any, the most that it can have been.
fn slowest_before(job: &Job, repaired: Duration) -> f64 {
    let began_ms = 1000.0;
    let ended_ms = repaired.as_secs_f64() * 1e3 - 750.0;
    let during = |progress: &Progress| (began_ms..ended_ms).contains(&progress.at_ms);
    let rates: Vec<_> = job.progress().into_iter().filter(during).collect();
    let sum: f64 = rates.iter().map(Progress::slowest_mbps).sum();
    match rates.len() {
        0 => MAX_SHARED_MBPS,
        count => sum / count as f64,
    }
}
