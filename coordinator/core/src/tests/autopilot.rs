//! Automatic mode: what the coordinator changes by itself, and what it does not.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::instruction::Instruction;
use reweave_common::operator::{Mode, Phase, Request, Response};
use reweave_common::plan::{Generation, Plan};

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::network::Network;
use super::scene::{phase, planned};
use crate::rollout::autopilot::{WaitReason, not_now};
use crate::{AuditRecord, Author, Change, Effect, Outcome, Policy, Reason};

const SETTLE_TIME: Duration = Duration::from_secs(2);

fn collide(cluster: &mut Cluster) {
    cluster.network.start("h0", "h3", 1000, 0);
    cluster.network.start("h1", "h4", 1001, 0);
}

fn waits_because(cluster: &mut Cluster) -> String {
    match cluster.ask(Request::Status) {
        Response::Status(status) => status.waits_because.unwrap_or_default(),
        other => panic!("no status: {other:?}"),
    }
}

#[test]
fn manual_mode_plans_only_on_request() {
    let mut cluster = Cluster::new(Mode::Manual);
    collide(&mut cluster);
    cluster.run_for(Duration::from_secs(10));
    assert!(cluster.log.is_empty());
    assert_eq!(waits_because(&mut cluster), "");
}

#[test]
fn flow_is_measured_before_planning() {
    let policy = Policy {
        mode: Mode::Auto,
        look_every: Duration::ZERO,
        ..Policy::default()
    };
    let mut cluster = Cluster::with(Network::new(2, 3), policy);
    cluster.run_for(SETTLE_TIME);
    collide(&mut cluster);
    let took = cluster.run_until("planned", |c| c.core.state().rollouts().next().is_some());
    assert!(took >= Duration::from_millis(500), "{took:?}");
    assert_eq!(waits_because(&mut cluster), "");
}

#[test]
fn policy_and_operator_authors_are_distinguished() {
    let mut cluster = Cluster::new(Mode::Auto);
    collide(&mut cluster);
    cluster.run_until_ended(1);
    let ended = cluster.core.state().history().next().unwrap();
    assert_eq!(ended.proposed.by, Author::Policy);
    assert_eq!(ended.approved.as_ref().unwrap().by, Author::Policy);
}

#[test]
fn automatic_apply_and_rollback_are_recorded() {
    let mut cluster = Cluster::new(Mode::Auto);
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    collide(&mut cluster);
    cluster.run_until_ended(1);
    let records = std::iter::from_fn(|| cluster.core.poll_record());
    let records: Vec<_> = records.collect();
    let [applied, rolled_back] = &records[..] else {
        panic!("each once: {records:?}");
    };
    let AuditRecord::CarriedOut {
        generation,
        by: Author::Policy,
        seal,
    } = applied
    else {
        panic!("{applied:?}");
    };
    assert_eq!(seal.len(), 16, "{seal}");
    let AuditRecord::RolledBack {
        generation: back,
        reasons,
    } = rolled_back
    else {
        panic!("{rolled_back:?}");
    };
    assert!(back == generation && !reasons.is_empty(), "{reasons:?}");
}

#[test]
fn silent_switch_on_path_blocks_planning() {
    let mut cluster = Cluster::new(Mode::Auto);
    let spine = cluster.network.node("spine1");
    cluster.run_for(SETTLE_TIME);
    cluster.connected.remove(&spine);
    cluster.run_for(2 * SETTLE_TIME);
    collide(&mut cluster);
    cluster.run_for(Duration::from_secs(10));
    assert!(cluster.log.is_empty(), "{:?}", cluster.log);
    assert!(waits_because(&mut cluster).contains("but spine1 does not report"));
    cluster.connect(spine);
    cluster.run_until_ended(1);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}

#[test]
fn next_change_waits_for_cool_down() {
    let mut cluster = Cluster::new(Mode::Auto);
    collide(&mut cluster);
    cluster.run_until_ended(1);
    cluster.network.start("h3", "h0", 1002, 0);
    cluster.network.start("h4", "h1", 1003, 0);
    cluster.run_for(Duration::from_secs(9));
    assert!(cluster.core.state().rollouts().next().is_none());
    assert!(
        waits_because(&mut cluster).contains("cools down"),
        "{}",
        waits_because(&mut cluster)
    );
    cluster.run_until_ended(2);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}

#[test]
fn cool_down_doubles_after_each_failure() {
    let mut cluster = Cluster::new(Mode::Auto);
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    collide(&mut cluster);
    let [_, first, second, third] = [1, 2, 3, 4].map(|plans| {
        let took = cluster.run_until_ended(plans);
        assert!(matches!(cluster.last_outcome(), Outcome::RolledBack { .. }));
        took.as_secs()
    });
    assert!(
        (20..22).contains(&first) && (40..42).contains(&second),
        "{first} {second}"
    );
    assert!((80..82).contains(&third), "{third}");
}

#[test]
fn one_plan_runs_at_once() {
    let mut cluster = Cluster::new(Mode::Auto);
    collide(&mut cluster);
    cluster.network.switch("leaf0").mood = Mood::Deaf;
    cluster.run_until("applying", |c| c.core.state().rollouts().next().is_some());
    let plan = cluster.core.state().rollouts().next().unwrap().plan.clone();
    cluster.network.start("h3", "h0", 1002, 0);
    cluster.network.start("h4", "h1", 1003, 0);
    cluster.run_for(Duration::from_secs(5));
    assert_eq!(cluster.core.state().rollouts().next().unwrap().plan, plan);
}

fn traced(effects: &[Effect]) -> Vec<Vec<FlowKey>> {
    let watch = |effect: &Effect| match effect {
        Effect::Send {
            instruction: Instruction::Watch(watch),
            ..
        } => Some(watch.trace.clone()),
        _ => None,
    };
    effects.iter().filter_map(watch).collect()
}

#[test]
fn paths_traced_only_on_flow_change() {
    let mut cluster = Cluster::new(Mode::Manual);
    let flow = cluster.network.start("h0", "h3", 1000, 0);
    cluster.run_for(Duration::from_secs(20));
    let both = [vec![flow], vec![flow.reversed()]];
    assert_eq!(
        traced(&cluster.effects),
        both,
        "the sender, and the receiver for the way back"
    );
    cluster.network.end(flow);
    cluster.run_for(SETTLE_TIME);
    assert_eq!(traced(&cluster.effects)[2..], [vec![], vec![]]);
}

#[test]
fn reconnected_agent_is_asked_again() {
    let mut cluster = Cluster::new(Mode::Manual);
    let flow = cluster.network.start("h0", "h3", 1000, 0);
    cluster.run_for(SETTLE_TIME);
    let host = cluster.network.node("h0");
    cluster.disconnect(host);
    cluster.connect(host);
    cluster.run_for(SETTLE_TIME);
    let there = vec![flow];
    let asked = traced(&cluster.effects);
    assert_eq!(
        asked.iter().filter(|it| **it == there).count(),
        2,
        "{asked:?}"
    );
    assert_eq!(asked.len(), 3, "the receiver was there all the time");
}

#[test]
fn reconnected_switch_gets_instruction_again() {
    let mut cluster = Cluster::new(Mode::Auto);
    collide(&mut cluster);
    cluster.run_until_ended(1);
    let (leaf, sent) = (cluster.network.node("leaf0"), cluster.installs_sent());
    cluster.disconnect(leaf);
    cluster.network.switch("leaf0").rules.clear();
    cluster.network.switch("leaf0").forget();
    cluster.connect(leaf);
    cluster.run_for(SETTLE_TIME);
    assert_eq!(cluster.installs_sent(), sent + 1);
    cluster.assert_one_generation();
}

#[test]
fn withdrawn_plans_start_no_cool_down() {
    let plan = planned()
        .0
        .core
        .state()
        .rollouts()
        .next()
        .unwrap()
        .plan
        .clone();
    let mut cluster = Cluster::new(Mode::Auto);
    collide(&mut cluster);
    for generation in (1..=3).map(Generation) {
        let plan = Plan {
            generation,
            ..plan.clone()
        };
        let (by, reasons) = (Author::Policy, vec![Reason::NothingToMend]);
        cluster.propose(plan, by);
        cluster.append(Change::PlanWithdrawn {
            generation,
            reasons,
        });
    }
    assert_eq!(cluster.core.state().ended(), 3);
    let took = cluster.run_until("begun", |c| phase(c) == Some(Phase::Applying));
    assert!(took < SETTLE_TIME, "{took:?}");
}

#[test]
fn success_resets_cool_down() {
    let mut cluster = Cluster::new(Mode::Auto);
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    collide(&mut cluster);
    cluster.run_until_ended(2);
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until_ended(3);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    cluster.network.start("h3", "h0", 1002, 0);
    cluster.network.start("h4", "h1", 1003, 0);
    let took = cluster.run_until_ended(4).as_secs();
    assert!((10..13).contains(&took), "{took}");
}

#[test]
fn plan_without_enough_gain_is_dropped() {
    let (cluster, _, generation) = planned();
    let state = cluster.core.state();
    let mut plan = state.rollouts().next().unwrap().plan.clone();
    assert_eq!(plan.generation, generation);
    let known = cluster.core.known_at(cluster.now());
    assert!(not_now(known, &plan).is_none());
    plan.report.slowest_after = plan.report.slowest_before;
    assert_eq!(not_now(known, &plan), Some(WaitReason::TooLittleToGain));
}

#[test]
fn traced_flows_are_limited_and_rotate() {
    let mut cluster = Cluster::on(Network::new(2, 1), Mode::Manual);
    let start = |port: u16| cluster.network.start("h0", "h1", 1000 + port, 0);
    let flows: BTreeSet<_> = (0..70).map(start).collect();
    cluster.run_for(Duration::from_secs(30));
    let asked = traced(&cluster.effects);
    assert!(asked.iter().all(|flows| flows.len() <= 64), "{asked:?}");
    let all: BTreeSet<_> = asked.into_iter().flatten().collect();
    assert!(all.is_superset(&flows), "in time each has its turn");
}
