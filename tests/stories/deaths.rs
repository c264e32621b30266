//! The coordinator is killed in the middle of a change, and started again on what it left behind.

use libtest_mimic::Trial;
use reweave_common::operator::{Outcome, Phase, Record};
use reweave_tests::{Leadership, Stage};

use crate::needs::trial;
use crate::play::{
    STAGE_NEEDS, WATCH_TIME, begun, collide, ended, is_as_before, is_in, led, must, planned,
    reaches, slowest_over, status_when, taking_back,
};

/// What no flow has that shares an uplink.
const MIN_UNSHARED_MBPS: f64 = 150.0;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial(
            "restarted_coordinator_keeps_offer",
            STAGE_NEEDS,
            killed_while_proposed,
        ),
        trial(
            "restarted_coordinator_instructs_again",
            STAGE_NEEDS,
            killed_while_applying,
        ),
        trial(
            "restarted_coordinator_measures_again",
            STAGE_NEEDS,
            killed_while_verifying,
        ),
        trial(
            "restarted_coordinator_continues_rollback",
            STAGE_NEEDS,
            killed_while_rolling_back,
        ),
    ]
}

fn kill_and_start_again(stage: &mut Stage) {
    must(stage.coordinator()).kill();
    must(stage.lead(&Leadership::without_rate_rollback()));
}

fn killed_while_proposed() {
    let mut stage = led(&Leadership::without_rate_rollback());
    let mut job = collide(&stage);
    let plan = planned(&stage);
    kill_and_start_again(&mut stage);
    must(stage.wait_until_known());
    // The readings it judges by come again.
    let again = planned(&stage);
    assert_eq!(
        (again.generation, &again.moves),
        (plan.generation, &plan.moves)
    );
    let applied = must(stage.operator().apply(&plan));
    assert_eq!(applied.code, Some(0), "{applied:#?}");
    reaches(&mut job, MIN_UNSHARED_MBPS);
    assert!(must(job.stop()).kept_all_sessions());
}

fn killed_while_applying() {
    let mut stage = led(&Leadership::without_rate_rollback());
    let mut job = collide(&stage);
    let before = slowest_over(&mut job, WATCH_TIME);
    planned(&stage);
    must(must(stage.agent("leaf0")).freeze());
    let plan = begun(&stage);
    status_when(&stage, "the plan is being applied", is_in(Phase::Applying));
    kill_and_start_again(&mut stage);
    status_when(&stage, "it goes on with it", is_in(Phase::Applying));
    must(must(stage.agent("leaf0")).thaw());
    settled(&stage, &ended(&stage), &plan);
    is_as_before(&mut job, before);
    assert!(must(job.stop()).kept_all_sessions());
}

/// Hosts that report nothing hold the verdict up.
fn killed_while_verifying() {
    let mut stage = led(&Leadership::without_rate_rollback());
    let mut job = collide(&stage);
    must(must(stage.agent("leaf0")).freeze());
    let plan = begun(&stage);
    status_when(&stage, "the plan is being applied", is_in(Phase::Applying));
    let hosts: Vec<_> = (0..8).map(|number| format!("h{number}")).collect();
    for host in &hosts {
        must(must(stage.agent(host)).freeze());
    }
    must(must(stage.agent("leaf0")).thaw());
    status_when(
        &stage,
        "the plan is being measured",
        is_in(Phase::Verifying),
    );
    kill_and_start_again(&mut stage);
    for host in &hosts {
        must(must(stage.agent(host)).thaw());
    }
    let record = ended(&stage);
    assert_eq!(record.outcome, Outcome::Committed, "{record:#?}");
    settled(&stage, &record, &plan);
    reaches(&mut job, MIN_UNSHARED_MBPS);
    assert!(must(job.stop()).kept_all_sessions());
}

/// A switch that stands still holds the way back up, so that there is a moment to kill in.
fn killed_while_rolling_back() {
    let (mut stage, routing) = taking_back();
    kill_and_start_again(&mut stage);
    status_when(&stage, "it goes on with that", is_in(Phase::RollingBack));
    must(must(stage.agent("leaf0")).thaw());
    let record = ended(&stage);
    assert!(
        matches!(record.outcome, Outcome::RolledBack { .. }),
        "{record:#?}"
    );
    assert_eq!(must(stage.routing()), routing);
}

/// One way or the other, what the switches hold is what the coordinator thinks they hold.
fn settled(stage: &Stage, record: &Record, plan: &reweave_common::operator::Plan) {
    let pins = match record.outcome {
        Outcome::Committed => plan.pins.len(),
        Outcome::RolledBack { .. } => 0,
        _ => panic!("{record:#?}"),
    };
    let rules = must(stage.output("leaf0", &["ip", "rule"]));
    assert_eq!(rules.matches("proto 213").count(), pins, "{rules}");
    let status = must(stage.operator().status());
    assert!(status.alarms.is_empty(), "{:?}", status.alarms);
}
