//! Switches and agents that do not do as they are told.

use std::time::Duration;

use reweave_common::instruction::{Ack, Refusal};
use reweave_common::operator::{Phase, Refused, Request, Response};
use reweave_common::plan::Generation;

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::scene::*;
use crate::{Input, Outcome, Reason};

#[test]
fn a_switch_that_refuses_ends_the_plan_and_nothing_is_left_of_it() {
    let (mut cluster, _, plan) = planned();
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    assert!(matches!(
        reasons(&cluster)[..],
        [Reason::Refused {
            refusal: Refusal::Kernel { .. },
            ..
        }]
    ));
}

/// The plan stays where it is for as long as the switch resists, and then is taken back.
fn held_until_it_obeys(mut cluster: Cluster) {
    cluster.run_until("held", |c| phase(c) == Some(Phase::Held));
    cluster.run_for(Duration::from_secs(40));
    assert_eq!(phase(&cluster), Some(Phase::Held));
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
}

#[test]
fn a_switch_that_refuses_but_does_it_all_the_same_is_not_taken_at_its_word() {
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
fn a_switch_that_holds_something_else_than_it_was_told_ends_the_plan() {
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
fn an_agent_that_vanishes_in_the_middle_is_waited_for_and_the_plan_is_taken_back() {
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
fn a_switch_that_loses_its_rules_while_they_are_judged_is_told_again() {
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
fn a_silent_switch_is_asked_three_times_two_seconds_apart() {
    let (mut cluster, _, plan) = planned();
    cluster.network.switch("leaf0").mood = Mood::Deaf;
    let sent = |cluster: &Cluster| cluster.installs_sent();
    cluster.apply(plan);
    let begun = cluster.effects.len();
    cluster.run_for(Duration::from_millis(5900));
    assert_eq!(sent(&cluster), 3, "{:?}", &cluster.effects[begun..]);
    assert_eq!(phase(&cluster), Some(Phase::Applying));
    cluster.run_for(Duration::from_millis(300));
    assert_eq!(phase(&cluster), Some(Phase::RollingBack));
}

#[test]
fn a_switch_that_will_not_take_the_plan_back_is_told_again_until_it_does() {
    let (mut cluster, _, plan) = planned();
    cluster.network.start("h2", "h5", 1002, 1);
    cluster.network.switch("leaf0").mood = Mood::RefusesLater;
    cluster.apply(plan);
    held_until_it_obeys(cluster);
}

#[test]
fn acks_that_come_twice_and_in_another_order_change_nothing() {
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
fn acks_of_other_intents_and_from_other_nodes_are_not_heard() {
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
fn a_plan_is_not_begun_while_its_switch_is_not_there() {
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
