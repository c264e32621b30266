//! A switch's agent is stopped while tables change, with and without a coordinator: the plan is rolled back, and no
//! session breaks.

use libtest_mimic::Trial;
use reweave_common::operator::{Outcome, Phase, RunningChange};
use reweave_tests::{Leadership, STAGE_TIMEOUT, Stage, wait_for};

use crate::needs::trial;
use crate::play::{STAGE_NEEDS, must, status_when};
use crate::scene::{leaf_spine, led, offered};
use crate::session_jobs::Running;
use crate::sessions::{AGENT_ROUTES_SCRIPT, jobs};

/// When a spine is drained, both leaves change their tables in one round. The agent of the second one is stopped.
const LEAVES: [&str; 2] = ["leaf0", "leaf1"];

/// The coordinator waits three times this for the stopped agent, and then rolls back; the other agent has acknowledged
/// by then.
const POLICY_TOML: &str = "answer_within_ms = 3000\n";

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        trial("stopped_switch_has_plan_rolled_back", STAGE_NEEDS, stopped),
        trial(
            "tables_without_coordinator_are_reverted",
            STAGE_NEEDS,
            without_coordinator,
        ),
    ]
}

fn leadership() -> Leadership {
    Leadership {
        policy: POLICY_TOML.to_owned(),
        ..Leadership::default()
    }
}

/// Running sessions, and a plan that only the first leaf's agent can acknowledge.
fn half_installed() -> (Stage, Running) {
    let mut stage = led(&leaf_spine(2, 2, 2), &jobs(), &leadership());
    let running = Running::begin(&stage);
    let plan = offered(&stage, &["plan", "drain", "spine1"]);
    let migration = plan.migration.as_ref().expect("tables change");
    let round = &migration.waves[0].undrain[0];
    let has_both = LEAVES.iter().all(|leaf| round.contains_key(*leaf));
    assert!(has_both, "{migration:?}");
    must(must(stage.agent(LEAVES[1])).freeze());
    let begun = must(stage.operator().begin(&plan));
    assert_eq!(begun.code, Some(0), "{begun:?}");
    (stage, running)
}

fn holds_ours(stage: &Stage, leaf: &str) -> bool {
    !must(stage.output(leaf, &["sh", "-c", AGENT_ROUTES_SCRIPT])).is_empty()
}

/// The outcome of the plan, once it is final.
fn outcome(stage: &Stage) -> Outcome {
    let operator = stage.operator();
    must(wait_for("the plan ends", STAGE_TIMEOUT, || {
        let newest = operator.history()?.into_iter().next();
        let is_over = |it: &Outcome| !it.is_open() && !matches!(it, Outcome::Held { .. });
        Ok(newest.map(|record| record.outcome).filter(is_over))
    }))
}

fn stopped() {
    let (mut stage, running) = half_installed();
    let leads_back =
        |change: &RunningChange| matches!(change.phase, Phase::RollingBack | Phase::Held);
    status_when(&stage, "the plan leads back", |status| {
        status.changes.iter().any(leads_back)
    });
    running.go_on(2);
    must(must(stage.agent(LEAVES[1])).thaw());
    let outcome = outcome(&stage);
    assert!(matches!(outcome, Outcome::RolledBack { .. }), "{outcome:?}");
    assert_eq!(LEAVES.map(|leaf| holds_ours(&stage, leaf)), [false; 2]);
    must(stage.wait_until_known());
    running.go_on(2);
    running.end_without_loss();
}

fn without_coordinator() {
    let (mut stage, running) = half_installed();
    let first = LEAVES[0];
    must(wait_for("the first leaf follows", STAGE_TIMEOUT, || {
        Ok(holds_ours(&stage, first).then_some(()))
    }));
    must(stage.coordinator()).kill();
    must(wait_for("it goes back by itself", STAGE_TIMEOUT, || {
        Ok((!holds_ours(&stage, first)).then_some(()))
    }));
    running.go_on(2);
    must(must(stage.agent(LEAVES[1])).thaw());
    must(stage.lead(&leadership()));
    let is_kept = match outcome(&stage) {
        Outcome::Committed => true,
        Outcome::RolledBack { .. } => false,
        other => panic!("{other:?}"),
    };
    assert_eq!(LEAVES.map(|leaf| holds_ours(&stage, leaf)), [is_kept; 2]);
    must(stage.wait_until_known());
    running.go_on(2);
    running.end_without_loss();
}
