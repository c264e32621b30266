//! One value walks through all eight stages, on a job that runs.

use libtest_mimic::Trial;
use reweave_common::operator::{FlowChange, FlowStatus, Mode, Outcome};
use reweave_tests::Leadership;

use crate::needs::trial;
use crate::play::{
    LEAST_GAIN, LONGEST_STALL_MS, LOOK, STAGE, collide, led, must, once_right, planned,
    slowest_over,
};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "an_operator_mends_a_collision_and_no_session_breaks",
        STAGE,
        || {
            once_right(mended_by_an_operator, |figures| {
                figures.gain >= LEAST_GAIN && figures.longest_stall_ms <= LONGEST_STALL_MS
            });
        },
    )]
}

/// Whether the receiver's agent has traced what the receiver sends, over any spine.
fn comes_back(flow: &FlowStatus) -> bool {
    flow.path_back.as_deref().is_some_and(|back| {
        let ends = (back[0].from.as_str(), back[back.len() - 1].to.as_str());
        let spines = back.iter().filter(|hop| hop.to.starts_with("spine"));
        ends == (&flow.to, &flow.from) && spines.count() == 1
    })
}

#[derive(Debug)]
struct Figures {
    gain: f64,
    longest_stall_ms: f64,
}

fn mended_by_an_operator() -> Figures {
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
    assert!(
        status.flows.len() >= 2 && status.flows.iter().all(comes_back),
        "{status:#?}"
    );
    let report = must(job.stop());
    assert!(report.kept_all_sessions(), "{report:#?}");
    Figures {
        gain: after / before,
        longest_stall_ms: report.longest_stall_ms().expect("both ends have reported"),
    }
}
