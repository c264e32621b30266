//! Switches and agents that do not follow instructions.

use std::time::Duration;

use reweave_common::instruction::{Ack, InstallRefusal};
use reweave_common::operator::{Phase, Refused, Request, Response};
use reweave_common::plan::Generation;

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::scene::*;
use crate::{Input, Outcome, Reason};

#[test]
fn refusing_switch_rolls_plan_back() {
    let (mut cluster, _, plan) = planned();
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    assert!(matches!(
        reasons(&cluster)[..],
        [Reason::Refused {
            refusal: InstallRefusal::Kernel { .. },
            ..
        }]
    ));
}

/// The plan stays where it is for as long as the switch resists, and then is rolled back.
fn held_until_it_obeys(mut cluster: Cluster) {
    cluster.run_until("held", |c| phase(c) == Some(Phase::Held));
    cluster.run_for(Duration::from_secs(40));
    assert_eq!(phase(&cluster), Some(Phase::Held));
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
}

#[test]
fn refusal_after_install_is_not_believed() {
    let (mut cluster, _, plan) = planned();
    cluster.network.switch("leaf0").mood = Mood::Botches;
    cluster.apply(plan);
    cluster.run_until("installed", |c| {
        !c.network.switches.values().all(|s| s.rules.is_empty())
    });
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    held_until_it_obeys(cluster);
}

#[test]
fn wrong_rules_roll_plan_back() {
    let (mut cluster, _, plan) = planned();
    cluster.network.switch("leaf0").mood = Mood::Careless;
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert!(matches!(
        reasons(&cluster)[..],
        [Reason::HoldsOtherRules { .. }]
    ));
    assert_rolled_back(&cluster);
}

#[test]
fn vanished_agent_rolls_plan_back() {
    let (mut cluster, _, plan) = planned();
    let leaf = cluster.network.node("leaf0");
    cluster.network.switch("leaf0").mood = Mood::Mute;
    cluster.apply(plan);
    cluster.run_until("installed", |c| !c.network.switches[&leaf].rules.is_empty());
    cluster.disconnect(leaf);
    cluster.run_until("held", |c| phase(c) == Some(Phase::Held));
    let alarms = status(&mut cluster).alarms;
    assert!(
        alarms.len() == 1 && alarms[0].contains("leaf0 may still hold its rules"),
        "{alarms:?}"
    );
    assert_eq!(
        cluster.ask(Request::Plan),
        Response::Refused(Refused::Busy { running: plan })
    );

    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.connect(leaf);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    assert_eq!(reasons(&cluster), [Reason::Silent { node: leaf }]);
    assert!(status(&mut cluster).alarms.is_empty());
}

#[test]
fn switch_losing_rules_is_instructed_again() {
    let (mut cluster, _, plan) = planned();
    let leaf = cluster.network.node("leaf0");
    cluster.apply(plan);
    cluster.run_until("verifying", |c| phase(c) == Some(Phase::Verifying));
    cluster.disconnect(leaf);
    cluster.network.switch("leaf0").rules.clear();
    cluster.network.switch("leaf0").forget();
    cluster.connect(leaf);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    cluster.assert_one_generation();
}

#[test]
fn silent_switch_is_asked_three_times() {
    let (mut cluster, _, plan) = planned();
    cluster.network.switch("leaf0").mood = Mood::Deaf;
    cluster.apply(plan);
    let begun = cluster.effects.len();
    cluster.run_for(Duration::from_millis(5900));
    let sent = cluster.installs_sent();
    assert_eq!(sent, 3, "{:?}", &cluster.effects[begun..]);
    assert_eq!(phase(&cluster), Some(Phase::Applying));
    cluster.run_for(Duration::from_millis(300));
    assert_eq!(phase(&cluster), Some(Phase::RollingBack));
}

#[test]
fn refused_rollback_is_retried_until_done() {
    let (mut cluster, _, plan) = planned();
    cluster.network.start("h2", "h5", 1002, 1);
    cluster.network.switch("leaf0").mood = Mood::RefusesLater;
    cluster.apply(plan);
    held_until_it_obeys(cluster);
}

/// A switch that refused may have done something since it last said what it holds.
#[test]
fn stale_readback_proves_no_rollback() {
    let (mut cluster, _, plan) = planned();
    let node = cluster.network.node("leaf0");
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    cluster.apply(plan);
    cluster.run_until("rolling back", |c| phase(c) == Some(Phase::RollingBack));
    cluster.network.switch("leaf0").mood = Mood::Deaf;
    cluster.run_for(Duration::from_millis(500));
    let rollout = cluster.core.state().rollouts().next().unwrap();
    let step = rollout.phase.step().unwrap();
    let ack = Ack {
        generation: step.generation,
        token: step.token,
        outcome: Err(InstallRefusal::Kernel {
            error: "no space".to_owned(),
        }),
    };
    cluster.handle(Input::Ack { node, ack });
    cluster.report();
    cluster.stall(Duration::from_secs(4));
    cluster.handle(Input::Tick);
    assert_eq!(phase(&cluster), Some(Phase::RollingBack));
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
}

#[test]
fn repeated_reordered_acks_change_nothing() {
    let outcome = |on_the_way: fn(Vec<_>) -> Vec<_>| {
        let (mut cluster, _, plan) = planned();
        cluster.on_the_way = on_the_way;
        cluster.apply(plan);
        cluster.run_until_ended(1);
        cluster.assert_one_generation();
        cluster.core.state().clone()
    };
    let as_sent = outcome(|acks| acks);
    let twice = outcome(|acks| acks.iter().rev().chain(&acks).cloned().collect());
    assert_eq!(twice, as_sent);
}

#[test]
fn foreign_acks_are_ignored() {
    let (mut cluster, _, plan) = planned();
    let leaf = cluster.network.node("leaf0");
    cluster.network.switch("leaf0").mood = Mood::Deaf;
    cluster.apply(plan);
    cluster.run_until("applying", |c| phase(c) == Some(Phase::Applying));
    let log = cluster.log.len();
    let step = cluster
        .core
        .state()
        .rollouts()
        .next()
        .unwrap()
        .phase
        .step()
        .unwrap()
        .clone();
    let holding = step.targets[&leaf].holding.clone();
    let right = Ack {
        generation: step.generation,
        token: step.token,
        outcome: Ok(holding),
    };
    let older = Ack {
        token: reweave_common::instruction::Token(0),
        ..right.clone()
    };
    let other = Ack {
        generation: Generation(77),
        ..right.clone()
    };
    let spine = cluster.network.node("spine0");
    for (node, ack) in [(leaf, older), (leaf, other), (spine, right)] {
        cluster.handle(Input::Ack { node, ack });
    }
    assert_eq!(cluster.log.len(), log);
    assert_eq!(phase(&cluster), Some(Phase::Applying));
}

#[test]
fn plan_waits_for_absent_switch() {
    let (mut cluster, _, plan) = planned();
    let leaf = cluster.network.node("leaf0");
    cluster.disconnect(leaf);
    let refused = cluster.ask(Request::Apply { generation: plan });
    let Response::Refused(Refused::Unfit { reasons }) = refused else {
        panic!("{refused:?}")
    };
    assert!(
        reasons.contains(&"the agent of leaf0 is not connected".to_owned()),
        "{reasons:?}"
    );
    assert_nothing_installed(&cluster);
    cluster.connect(leaf);
    cluster.run_for(SETTLE_TIME);
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}
