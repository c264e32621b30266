//! A link fails beyond a pin: no routing protocol tells the switch that holds it.

use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::operator::{Finding, Outcome, Record};
use reweave_common::time_span::TimeSpan;
use reweave_tests::{Leadership, STAGE_TIMEOUT, Stage, wait_for};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, led, must, reaches};
use crate::timed::timed_value;

/// The longest that a flow may stand still.
const MAX_STALL: Duration = Duration::from_secs(5);
/// Less than what each of two has on one uplink of 200 Mb/s.
const MIN_SHARED_MBPS: f64 = 60.0;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "timed_pinned_flow_survives_link_failure",
        STAGE_NEEDS,
        || {
            timed_value("a pinned flow stands still", severed, |stalled| {
                *stalled <= MAX_STALL
            });
        },
    )]
}

fn severed() -> Duration {
    let auto = Leadership {
        auto: true,
        ..Leadership::without_rate_rollback()
    };
    let stage = led(&auto);
    let mut job = must(stage.job("train"));
    let kept = next_record(&stage, 0);
    assert_eq!(kept.outcome, Outcome::Committed, "{kept:#?}");
    let spine = &kept.plan.pins[0].hop.to;
    must(stage.sever("leaf1", spine));

    let lift = next_record(&stage, 1);
    assert_eq!(lift.outcome, Outcome::Committed, "{lift:#?}");
    assert_eq!(lift.approved_by.as_deref(), Some("policy"));
    assert!(lift.plan.pins.is_empty() && lift.plan.moves.is_empty());
    let found = &lift.plan.report.findings[..];
    assert!(matches!(found, [Finding::UselessPin(_)]), "{found:#?}");
    reaches(&mut job, MIN_SHARED_MBPS);
    let report = must(job.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
    let stalled_ms = report.longest_stall_ms().expect("both ends have reported");
    TimeSpan::from_secs_f64(stalled_ms / 1e3).get()
}

/// The newest entry of the history, once this many were there before it and it has ended.
fn next_record(stage: &Stage, before: usize) -> Record {
    let operator = stage.operator();
    must(wait_for("the next change ends", STAGE_TIMEOUT, || {
        let ended = operator.history()?.into_iter();
        let ended: Vec<_> = ended.filter(|record| !record.outcome.is_open()).collect();
        Ok((ended.len() > before).then(|| ended[0].clone()))
    }))
}
