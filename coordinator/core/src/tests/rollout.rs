//! A plan from the collision to its end, whatever comes between.

use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::instruction::{Ack, Refusal};
use reweave_common::operator::{
    FlowChange, Mode, Outcome as Shown, Phase, Refused, Request, Response, Status,
};
use reweave_common::plan::{Generation, Pin};
use reweave_common::sample::Reading;
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::network::Network;
use super::switch::Mood;
use crate::{Author, Change, Decision, Input, Outcome, Reason};

const A_WHILE: Duration = Duration::from_secs(2);

/// Two flows that meet on the way to the first spine, while the other one is idle.
fn collision(mode: Mode) -> (Cluster, [FlowKey; 2]) {
    let mut cluster = Cluster::new(mode);
    let flows = [("h0", "h3", 1000), ("h1", "h4", 1001)]
        .map(|(from, to, port)| cluster.network.start(from, to, port, 0));
    (cluster, flows)
}

/// The same, with a plan to mend it.
fn planned() -> (Cluster, [FlowKey; 2], Generation) {
    let (mut cluster, flows) = collision(Mode::Manual);
    cluster.run_for(A_WHILE);
    let plan = cluster.plan();
    (cluster, flows, plan)
}

fn status(cluster: &mut Cluster) -> Status {
    match cluster.ask(Request::Status) {
        Response::Status(status) => *status,
        other => panic!("no status: {other:?}"),
    }
}

fn reasons(cluster: &Cluster) -> Vec<Reason> {
    match cluster.last_outcome() {
        Outcome::Committed => vec![],
        Outcome::Refused { reasons }
        | Outcome::Withdrawn { reasons }
        | Outcome::RolledBack { reasons, .. } => reasons.clone(),
    }
}

fn moved(cluster: &Cluster) -> FlowKey {
    cluster.core.state().rollout().unwrap().plan.moves[0].flow
}

fn assert_rolled_back(cluster: &Cluster) {
    assert!(
        matches!(cluster.last_outcome(), Outcome::RolledBack { .. }),
        "{cluster:?}"
    );
    assert!(cluster.core.state().in_force().pins.is_empty());
    cluster.assert_one_generation();
}

fn assert_nothing_installed(cluster: &Cluster) {
    assert!(
        cluster
            .network
            .switches
            .values()
            .all(|switch| switch.told == 0)
    );
    cluster.assert_one_generation();
}

#[test]
fn a_collision_is_found_planned_applied_verified_and_committed() {
    let (mut cluster, flows, plan) = planned();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert_ne!(
        cluster.network.uplink(&flows[0]),
        cluster.network.uplink(&flows[1])
    );
    cluster.assert_one_generation();
    let Response::History(history) = cluster.ask(Request::History) else {
        panic!()
    };
    assert_eq!(history[0].outcome, Shown::Committed);
    assert_eq!(history[0].approved_by.as_deref(), Some("ada"));
    for flow in &history[0].flows {
        let gain =
            flow.measured_bits_per_s.unwrap().mbps() / flow.before_bits_per_s.unwrap().mbps();
        assert!(gain > 1.8 && flow.change == FlowChange::Faster, "{flow:?}");
    }
}

#[test]
fn in_automatic_mode_a_collision_is_mended_in_less_than_five_seconds() {
    let mut cluster = Cluster::new(Mode::Auto);
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.run_for(A_WHILE);
    cluster.network.start("h1", "h4", 1001, 0);
    let took = cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert!(took < Duration::from_secs(5), "{took:?}");
    cluster.assert_one_generation();
}

#[test]
fn when_the_job_changes_between_plan_and_apply_the_change_is_taken_back() {
    let (mut cluster, flows, plan) = planned();
    let before = flows.map(|flow| cluster.network.uplink(&flow));
    let newcomer = cluster.network.start("h2", "h5", 1002, 1);
    cluster.run_for(A_WHILE);
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    assert_eq!(flows.map(|flow| cluster.network.uplink(&flow)), before);
    let told = reasons(&cluster);
    assert!(
        matches!(told[..], [Reason::TooLittleGain { .. }, Reason::GotSlower { flow, .. }]
        if flow == newcomer),
        "{told:?}"
    );
}

#[test]
fn taking_back_restores_the_pins_of_the_plan_before_and_not_none() {
    let mut cluster = Cluster::on(Network::new(3, 4), Mode::Manual);
    cluster.network.start("h0", "h4", 1000, 0);
    cluster.network.start("h1", "h5", 1001, 0);
    cluster.run_for(A_WHILE);
    let first = cluster.plan();
    cluster.apply(first);
    cluster.run_until_ended(1);
    let pins = cluster.core.state().in_force().pins.clone();
    let rules = cluster.network.switch("leaf0").rules.clone();
    assert_eq!((pins.len(), rules.len()), (1, 1));

    let idle = cluster.idle_spine();
    cluster.network.start("h2", "h6", 1002, 0);
    cluster.run_for(A_WHILE);
    let second = cluster.plan();
    cluster.network.start("h3", "h7", 1003, idle);
    cluster.run_for(A_WHILE);
    cluster.apply(second);
    cluster.run_until("pinned twice", |c| {
        c.network.switches.values().any(|s| s.rules.len() == 2)
    });
    cluster.run_until_ended(2);
    let outcome = cluster.last_outcome();
    assert!(matches!(outcome, Outcome::RolledBack { generation, .. } if *generation > second));
    assert_eq!(cluster.core.state().in_force().pins, pins);
    assert_eq!(cluster.network.switch("leaf0").rules, rules);
    cluster.assert_one_generation();
}

#[test]
fn readings_of_the_time_just_after_the_change_are_not_judged_and_one_is_not_enough() {
    let (mut cluster, _, plan) = planned();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    let at = |what: fn(&Change) -> bool| cluster.log.iter().find(|c| what(&c.change)).unwrap().at;
    let acked = at(|change| matches!(change, Change::Acked { .. }));
    let judged = at(|change| matches!(change, Change::Verified { .. }));
    let took = judged.since(acked);
    let expected = Duration::from_millis(300 + 4 * 100);
    assert!(took >= expected && took < expected + A_WHILE, "{took:?}");
}

#[test]
fn a_flow_that_pauses_while_it_is_judged_is_waited_for_and_proves_nothing() {
    let (mut cluster, flows, plan) = planned();
    cluster.apply(plan);
    cluster.run_until("verifying", |c| phase(c) == Some(Phase::Verifying));
    cluster.network.pause(flows[0]);
    let took = cluster.run_until_ended(1);
    assert!((10..11).contains(&took.as_secs()), "{took:?}");
    assert_rolled_back(&cluster);
    assert!(reasons(&cluster).contains(&Reason::Vanished { flow: flows[0] }));
}

#[test]
fn a_sender_that_has_just_come_back_has_not_lost_its_flows() {
    let (mut cluster, _, plan) = planned();
    let node = cluster.network.node("h0");
    cluster.disconnect(node);
    cluster.connect(node);
    let mut sample = cluster.network.sample(node, cluster.now());
    sample
        .readings
        .retain(|reading| matches!(reading, Reading::Interface(_)));
    cluster.handle(Input::Sample { node, sample });
    cluster.handle(Input::Tick);
    assert_eq!(phase(&cluster), Some(Phase::Proposed));
    cluster.run_for(A_WHILE);
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}

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

#[test]
fn a_switch_that_refuses_but_does_it_all_the_same_is_not_taken_at_its_word() {
    let (mut cluster, _, plan) = planned();
    cluster.network.switch("leaf0").mood = Mood::Botches;
    cluster.apply(plan);
    cluster.run_until("installed", |c| {
        !c.network.switches.values().all(|s| s.rules.is_empty())
    });
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    cluster.run_until("held", |c| phase(c) == Some(Phase::Held));
    cluster.run_for(Duration::from_secs(40));
    assert_eq!(phase(&cluster), Some(Phase::Held));
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
}

#[test]
fn a_number_is_given_to_one_plan_only() {
    let (mut cluster, flows, plan) = planned();
    cluster.network.end(moved(&cluster));
    cluster.run_until_ended(1);
    flows.into_iter().for_each(|flow| {
        cluster.network.flows.remove(&flow);
    });
    cluster.network.start("h1", "h4", 2000, 1);
    cluster.network.start("h2", "h5", 2001, 1);
    cluster.run_for(2 * A_WHILE);
    let second = cluster.plan();
    assert!(second > plan);
    cluster.apply(second);
    cluster.run_until_ended(2);
    assert_eq!(
        cluster.last_outcome(),
        &Outcome::Committed,
        "{:?}",
        reasons(&cluster)
    );
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
fn a_flow_that_ends_before_its_pin_lands_is_no_error() {
    let (mut cluster, _, _) = planned();
    let flow = moved(&cluster);
    cluster.network.end(flow);
    cluster.run_until_ended(1);
    assert_eq!(
        cluster.last_outcome(),
        &Outcome::Withdrawn {
            reasons: vec![Reason::FlowEnded { flow }]
        }
    );
    assert_nothing_installed(&cluster);
}

#[test]
fn a_flow_that_ends_while_its_pin_is_on_the_way_takes_the_pin_with_it() {
    let (mut cluster, _, plan) = planned();
    let flow = moved(&cluster);
    cluster.network.switch("leaf0").mood = Mood::Mute;
    cluster.apply(plan);
    cluster.run_until("installed", |c| {
        c.network.switches.values().any(|s| !s.rules.is_empty())
    });
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.network.end(flow);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    assert_eq!(reasons(&cluster), [Reason::FlowEnded { flow }]);
}

#[test]
fn a_flow_that_ends_while_it_is_judged_is_listed_and_its_pin_removed() {
    let (mut cluster, _, plan) = planned();
    let flow = moved(&cluster);
    cluster.apply(plan);
    cluster.run_until("verifying", |c| phase(c) == Some(Phase::Verifying));
    cluster.network.end(flow);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
    assert!(reasons(&cluster).contains(&Reason::Vanished { flow }));
}

fn phase(cluster: &Cluster) -> Option<Phase> {
    let mut seen = cluster.core.state().rollout().map(|rollout| &rollout.phase);
    seen.take().map(|phase| match phase {
        crate::Phase::Proposed => Phase::Proposed,
        crate::Phase::Approved => Phase::Approved,
        crate::Phase::Applying(_) => Phase::Applying,
        crate::Phase::Verifying(_) => Phase::Verifying,
        crate::Phase::RollingBack(_) => Phase::RollingBack,
        crate::Phase::Held(_) => Phase::Held,
    })
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
    cluster.run_until("held", |c| phase(c) == Some(Phase::Held));
    cluster.run_for(Duration::from_secs(40));
    assert_eq!(phase(&cluster), Some(Phase::Held));
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
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
        .rollout()
        .unwrap()
        .phase
        .step()
        .unwrap()
        .clone();
    let rules = step.targets[&leaf].rules.clone();
    let right = Ack {
        generation: step.generation,
        token: step.token,
        outcome: Ok(rules),
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
fn a_plan_that_would_loop_is_refused_by_the_judge() {
    let (mut cluster, _, plan) = planned();
    let [spine, leaf] = ["spine1", "leaf0"].map(|name| cluster.network.node(name));
    let mut looping = cluster.core.state().rollout().unwrap().plan.clone();
    let link = cluster
        .network
        .fabric
        .links_between(spine, leaf)
        .next()
        .unwrap();
    looping.generation = plan.next();
    looping.pins.push(Pin {
        flow: looping.moves[0].flow,
        at: spine,
        link,
    });
    let by = Author::Operator("mallory".to_owned());
    cluster.append(Change::PlanProposed {
        plan: Box::new(looping),
        by,
    });
    let answer = cluster.ask(Request::Apply {
        generation: plan.next(),
    });
    assert!(
        matches!(answer, Response::Refused(Refused::Unfit { .. })),
        "{answer:?}"
    );
    assert!(matches!(cluster.last_outcome(), Outcome::Refused { .. }));
    assert!(
        reasons(&cluster).iter().any(|reason| {
            matches!(reason, Reason::Unsound(reweave_check::Unsound::Loop { .. }))
        })
    );
    assert_nothing_installed(&cluster);
}

#[test]
fn only_the_plan_that_was_shown_can_be_applied() {
    let (mut cluster, _, plan) = planned();
    let asked = Request::Apply {
        generation: plan.next(),
    };
    assert_eq!(
        cluster.ask(asked),
        Response::Refused(Refused::OtherPlan { offered: plan })
    );
    assert_eq!(cluster.plan(), plan, "the same plan keeps its number");
    cluster.apply(plan);
    let asked = Request::Apply { generation: plan };
    assert_eq!(
        cluster.ask(asked),
        Response::Refused(Refused::Busy { running: plan })
    );
}

#[test]
fn nothing_is_planned_where_nothing_is_wrong() {
    let mut cluster = Cluster::new(Mode::Manual);
    assert_eq!(cluster.ask(Request::Plan), Response::Plan(None));
    assert_eq!(
        cluster.ask(Request::Apply {
            generation: Generation(1)
        }),
        Response::Refused(Refused::NoPlan)
    );
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.network.start("h1", "h4", 1001, 1);
    cluster.run_for(A_WHILE);
    assert_eq!(cluster.ask(Request::Plan), Response::Plan(None));
    assert!(cluster.log.is_empty());
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
    cluster.run_for(A_WHILE);
    cluster.apply(plan);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}

#[test]
fn a_verdict_is_kept_with_its_figures() {
    let (mut cluster, flows, plan) = planned();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    let state = cluster.core.state();
    let verdict = state.history().next().unwrap().verdict.clone().unwrap();
    assert_eq!(verdict.decision, Decision::Commit);
    for (judged, flow) in verdict.flows.iter().zip(flows) {
        let (before, after) = (
            judged.before.unwrap().mean.mbps(),
            judged.after.unwrap().mean.mbps(),
        );
        let [low, high] = judged.predicted.unwrap().map(Rate::mbps);
        assert_eq!(judged.flow, flow);
        assert!((48.0..52.0).contains(&before) && (97.0..101.0).contains(&after));
        assert!((low..=high).contains(&after), "{low} {after} {high}");
    }
}
