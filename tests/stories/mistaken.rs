//! A plan is made, then the world changes, then the plan is carried out: what it promised does not
//! come true, and it is rolled back.

use libtest_mimic::Trial;
use reweave_common::operator::Outcome;
use reweave_tests::{JobReport, Leadership};

use crate::needs::trial;
use crate::play::{
    STAGE_NEEDS, WATCH_TIME, collide, is_as_before, led, must, planned, slowest_over,
};

pub(crate) fn tests() -> Vec<Trial> {
    vec![trial(
        "wrong_prediction_restores_old_routes",
        STAGE_NEEDS,
        taken_back,
    )]
}

fn taken_back() {
    let stage = led(&Leadership::default());
    let mut train = collide(&stage);
    let plan = planned(&stage);
    let routing = must(stage.routing());
    // It fills the uplink that the plan counts on.
    let mut late = must(stage.job("late"));
    must(late.wait_until("it sends", |progress| {
        progress.iterations >= 2 && progress.slowest_mbps() > 60.0
    }));
    let before = [&mut train, &mut late].map(|job| slowest_over(job, WATCH_TIME));

    let applied = must(stage.operator().apply(&plan));
    assert_eq!(applied.code, Some(1), "{applied:#?}");
    let record = applied.record.expect("what was applied is on record");
    let Outcome::RolledBack {
        reasons,
        generation,
    } = &record.outcome
    else {
        panic!("{record:#?}");
    };
    assert!(!reasons.is_empty());
    assert_eq!(
        generation.0,
        plan.generation.0 + 1,
        "agents refuse old ones"
    );

    assert_eq!(
        must(stage.routing()),
        routing,
        "rules and routes are as before"
    );
    let status = must(stage.operator().status());
    assert_eq!((status.generation, status.pins.len()), (*generation, 0));
    for (job, before) in [&mut train, &mut late].into_iter().zip(before) {
        is_as_before(job, before);
    }
    let reports = [train, late].map(|job| must(job.stop()));
    assert!(reports.iter().all(JobReport::kept_all_sessions));
    eprintln!("rolled back because {}", reasons.join("; "));
}
