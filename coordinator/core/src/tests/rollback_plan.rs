//! Rollbacks of kept changes.

use std::time::Duration;

use reweave_common::forwarding_state::RouteRule;
use reweave_common::operator::{
    Mode, Plan, Record, Refused, Request, Response, RollbackRefused, Steering, What,
};
use reweave_common::plan::Generation;
use reweave_common::sample::PinRule;

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::network::Network;
use super::scene::{SETTLE_TIME, collision, planned, reasons};
use crate::{Change, Outcome, Reason};

/// The time to apply a plan and to judge it.
const ROLLOUT_TIME: Duration = Duration::from_secs(20);

pub(super) fn offered(cluster: &mut Cluster, request: Request) -> Plan {
    match cluster.ask(request) {
        Response::Plan {
            plan: Some(plan), ..
        } => *plan,
        other => panic!("no plan: {other:?}"),
    }
}

pub(super) fn back(cluster: &mut Cluster, which: Option<u64>) -> Plan {
    let generation = which.map(Generation);
    offered(cluster, Request::TakeBack { generation })
}

fn why_not(cluster: &mut Cluster, which: Option<u64>) -> RollbackRefused {
    let generation = which.map(Generation);
    match cluster.ask(Request::TakeBack { generation }) {
        Response::Refused(Refused::NoWayBack(why)) => why,
        other => panic!("{other:?}"),
    }
}

pub(super) fn carry_out(cluster: &mut Cluster, plan: &Plan) -> u64 {
    cluster.apply(plan.generation);
    cluster.run_for(ROLLOUT_TIME);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    plan.generation.0
}

fn drain(cluster: &mut Cluster, links: &[&str]) -> u64 {
    let links = links.iter().map(|link| (*link).to_owned()).collect();
    let plan = offered(cluster, Request::Drain { links });
    carry_out(cluster, &plan)
}

fn quiet() -> Cluster {
    let mut cluster = Cluster::on(Network::new(3, 4), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

fn record(cluster: &mut Cluster, generation: u64) -> Record {
    let generation = Generation(generation);
    match cluster.ask(Request::Record { generation }) {
        Response::Record(Some(record)) => *record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pin_rollback_needs_operator_choice() {
    let (mut cluster, _, plan) = planned();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    let pinned = cluster.core.state().in_force().pins[0].flow;
    let undo = back(&mut cluster, None);
    assert_eq!((undo.takes_back, undo.pins.len()), (Some(plan), 0));
    assert_eq!(undo.changes.len(), 1);
    assert!(matches!(&undo.changes[0].what, What::Unpin(pin) if pin.flow == pinned));
    cluster.run_for(SETTLE_TIME);
    cluster.apply(undo.generation);
    cluster.run_until_ended(2);
    let slower = |reason: &Reason| matches!(reason, Reason::GotSlower { .. });
    assert!(reasons(&cluster).iter().any(slower), "{cluster:?}");
    assert_eq!(cluster.core.state().in_force().pins.len(), 1, "it stays");
    let undo = back(&mut cluster, Some(plan.0));
    let generation = undo.generation;
    let begun = cluster.ask(Request::ApplyAnyway { generation });
    assert_eq!(begun, Response::ApplyStarted { generation });
    cluster.run_until_ended(3);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    assert!(cluster.core.state().in_force().pins.is_empty());
    assert_eq!(cluster.network.uplink(&pinned), "leaf0-spine0");
    cluster.assert_one_generation();
}

#[test]
fn rollbacks_undo_newest_change_first() {
    let mut cluster = quiet();
    assert_eq!(why_not(&mut cluster, None), RollbackRefused::NothingKept);
    let first = drain(&mut cluster, &["leaf0-spine1"]);
    let tables = cluster.core.state().in_force().tables.clone();
    let second = drain(&mut cluster, &["leaf0-spine1", "leaf0-spine2"]);
    let built = RollbackRefused::BuiltUpon {
        generation: Generation(first),
        by: Generation(second),
    };
    assert_eq!(why_not(&mut cluster, Some(first)), built);
    let undo = back(&mut cluster, None);
    let undo = carry_out(&mut cluster, &undo);
    assert_eq!(cluster.core.state().in_force().tables, tables);
    let undone = RollbackRefused::Undone {
        generation: Generation(second),
        by: Generation(undo),
    };
    assert_eq!(why_not(&mut cluster, Some(second)), undone);
    let itself = RollbackRefused::IsOneItself {
        generation: Generation(undo),
    };
    assert_eq!(why_not(&mut cluster, Some(undo)), itself);
    let last = back(&mut cluster, Some(first));
    carry_out(&mut cluster, &last);
    assert!(cluster.core.state().in_force().tables.is_empty());
    assert_eq!(why_not(&mut cluster, None), RollbackRefused::NothingKept);
    let never = RollbackRefused::NotKept {
        generation: Generation(u64::MAX),
    };
    assert_eq!(why_not(&mut cluster, Some(u64::MAX)), never);
    cluster.assert_one_generation();
}

#[test]
fn ended_flows_are_not_pinned_again() {
    let (mut cluster, _, plan) = planned();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    let pinned = cluster.core.state().in_force().pins[0].flow;
    cluster.network.end(pinned);
    cluster.run_for(2 * SETTLE_TIME);
    let lift = offered(&mut cluster, Request::Plan);
    carry_out(&mut cluster, &lift);
    let generation = None;
    let answer = cluster.ask(Request::TakeBack { generation });
    assert_eq!(answer, Response::Refused(Refused::NothingToChange));
}

/// A proposed plan that ends a drain and removes a pin whose flow has ended.
fn mixed() -> (Cluster, Plan) {
    let mut cluster = Cluster::on(Network::new(3, 4), Mode::Manual);
    cluster.network.start("h0", "h4", 1000, 0);
    cluster.network.start("h1", "h5", 1001, 0);
    cluster.run_for(SETTLE_TIME);
    let plan = cluster.plan();
    cluster.apply(plan);
    cluster.run_until_ended(1);
    let pinned = cluster.core.state().in_force().pins[0].flow;
    let link = format!("leaf0-spine{}", cluster.idle_spine());
    drain(&mut cluster, &[link.as_str()]);
    cluster.network.end(pinned);
    cluster.run_for(2 * SETTLE_TIME);
    let undo = back(&mut cluster, None);
    (cluster, undo)
}

/// The state of each switch.
fn held(cluster: &Cluster) -> Vec<(Vec<PinRule>, Vec<RouteRule>)> {
    let switches = cluster.network.switches.values();
    let held = switches.map(|it| (it.rules.clone(), it.routes.clone()));
    held.collect()
}

#[test]
fn plan_changes_pins_and_tables() {
    let (mut cluster, undo) = mixed();
    carry_out(&mut cluster, &undo);
    let in_force = cluster.core.state().in_force();
    assert!(in_force.pins.is_empty() && in_force.tables.is_empty());
    let is_clean =
        |(rules, routes): &(Vec<PinRule>, Vec<RouteRule>)| rules.is_empty() && routes.is_empty();
    assert!(held(&cluster).iter().all(is_clean));
    let parts = cluster.log.iter().flat_map(|it| it.change.parts());
    let mut rounds = parts.filter_map(|part| match part {
        Change::StepIntent(intent) if intent.plan == undo.generation => Some(&intent.targets),
        _ => None,
    });
    let first = rounds.next().expect("pins go before routes change");
    let lifts = first.values();
    assert!(lifts.clone().all(|it| it.rules.is_empty()), "{first:?}");
    assert!(lifts.clone().all(|it| !it.routes.is_empty()), "{first:?}");
    assert!(rounds.next().is_some(), "and then the routes");
}

/// The abort comes after each log entry of an undisturbed plan.
#[test]
fn aborted_mixed_plan_restores_both() {
    let (mut undisturbed, undo) = mixed();
    let offered = undisturbed.log.len();
    undisturbed.apply(undo.generation);
    undisturbed.run_until_ended(3);
    for entries in offered + 1..undisturbed.log.len() {
        let (mut cluster, undo) = mixed();
        let before = held(&cluster);
        cluster.apply(undo.generation);
        cluster.run_until("so far", |c| c.log.len() >= entries);
        let (generation, how) = (undo.generation, Steering::Abort);
        let answer = cluster.ask(Request::Steer { generation, how });
        assert_eq!(answer, Response::Steered { generation, how });
        cluster.run_until_ended(3);
        let is_back = matches!(cluster.last_outcome(), Outcome::RolledBack { .. });
        assert!(is_back, "{entries}: {cluster:?}");
        assert_eq!(held(&cluster), before, "{entries}");
        cluster.assert_one_generation();
    }
}

/// The switch has kept its pin, and would also refuse a round for its table.
#[test]
fn refused_lift_rolls_plan_back() {
    let (mut cluster, undo) = mixed();
    let before = held(&cluster);
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    cluster.apply(undo.generation);
    cluster.run_until_ended(3);
    let is_back = matches!(cluster.last_outcome(), Outcome::RolledBack { .. });
    assert!(is_back, "{cluster:?}");
    assert_eq!(held(&cluster), before);
    cluster.assert_one_generation();
}

#[test]
fn policy_respects_operator_rollback() {
    let (mut cluster, _) = collision(Mode::Auto);
    cluster.run_until_ended(1);
    let undo = back(&mut cluster, None);
    cluster.run_for(ROLLOUT_TIME);
    let offered = cluster
        .core
        .state()
        .rollouts()
        .next()
        .map(|it| it.plan.generation);
    assert_eq!(offered, Some(undo.generation));
}

#[test]
fn record_keeps_its_changes_over_time() {
    let mut cluster = quiet();
    let first = drain(&mut cluster, &["leaf0-spine1"]);
    let report = record(&mut cluster, first).plan.changes;
    assert!(!report.is_empty());
    let undo = back(&mut cluster, None);
    assert_eq!(
        record(&mut cluster, undo.generation.0).plan.changes,
        undo.changes
    );
    carry_out(&mut cluster, &undo);
    assert_eq!(record(&mut cluster, first).plan.changes, report);
    assert_eq!(
        record(&mut cluster, undo.generation.0).plan.changes,
        undo.changes
    );
}
