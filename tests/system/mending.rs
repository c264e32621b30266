//! One value walks through all eight stages, on a job that runs.

use std::time::Duration;

use libtest_mimic::Trial;
use reweave_common::operator::{FlowChange, Mode, Outcome};
use reweave_tests::Leadership;

use crate::needs::trial;
use crate::play::{STAGE, collide, led, must, planned, slowest_over};

/// Long enough for several iterations.
const LOOK: Duration = Duration::from_secs(3);
/// Perfect would be a little under 2.
const LEAST_GAIN: f64 = 1.8;

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "an_operator_mends_a_collision_and_no_session_breaks",
        STAGE,
        an_operator_mends_a_collision,
    )]
}

fn an_operator_mends_a_collision() {
    let stage = led(&Leadership::default());
    let mut job = collide(&stage);
    let before = slowest_over(&mut job, LOOK);
    let plan = planned(&stage);
    assert_eq!((plan.generation.0, plan.moves.len()), (1, 1), "{plan:#?}");

    let applied = must(stage.operator().apply(&plan));
    assert_eq!(applied.code, Some(0), "{applied:#?}");
    let record = applied.record.expect("what was applied is on record");
    assert_eq!(record.outcome, Outcome::Committed);
    assert!(
        record
            .flows
            .iter()
            .all(|flow| flow.change == FlowChange::Faster)
    );

    let after = slowest_over(&mut job, LOOK);
    let status = must(stage.operator().status());
    assert_eq!((status.generation.0, status.mode), (1, Mode::Manual));
    assert_eq!(status.pins.len(), 1);
    let report = must(job.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
    let stall_ms = report.longest_stall_ms().expect("both ends have reported");
    assert!(stall_ms <= 250.0, "{report:#?}");
    assert!(after / before >= LEAST_GAIN, "{before} Mb/s, then {after}");
    eprintln!(
        "slowest flow {before:.1} -> {after:.1} Mb/s ({:.2} times), longest stall {:.0} ms",
        after / before,
        stall_ms
    );
}
