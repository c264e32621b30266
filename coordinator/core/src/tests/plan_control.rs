//! Operators that hold, resume or abort a running plan.

use std::time::Duration;

use reweave_common::instruction::InstallRefusal;
use reweave_common::member::Role;
use reweave_common::operator::{Mode, Phase, Refused, Request, Response, Steering};
use reweave_common::plan::Generation;

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::network::Network;
use super::scene::*;
use crate::{Author, Change, Input, Outcome, Reason, Rollout};

const ONE_MINUTE: Duration = Duration::from_mins(1);

fn steer(cluster: &mut Cluster, generation: Generation, how: Steering) -> Response {
    cluster.ask(Request::Steer { generation, how })
}

#[track_caller]
fn steered(cluster: &mut Cluster, generation: Generation, how: Steering) {
    let answer = steer(cluster, generation, how);
    assert_eq!(answer, Response::Steered { generation, how });
}

/// A plan that changes routes and no pins.
fn draining() -> (Cluster, Generation) {
    let mut cluster = Cluster::on(Network::new(3, 4), Mode::Manual);
    cluster.network.start("h1", "h5", 1001, 1);
    cluster.run_for(SETTLE_TIME);
    let links = vec!["spine1".to_owned()];
    match cluster.ask(Request::Drain { links }) {
        Response::Plan {
            plan: Some(plan), ..
        } => (cluster, plan.generation),
        other => panic!("no plan: {other:?}"),
    }
}

fn pinning() -> (Cluster, Generation) {
    let (cluster, _, plan) = planned();
    (cluster, plan)
}

fn install_count(cluster: &Cluster) -> usize {
    let log = cluster.log.iter();
    let parts = log.flat_map(|command| command.change.parts());
    parts
        .filter(|change| matches!(change, Change::StepIntent(_)))
        .count()
}

fn is_held(cluster: &Cluster) -> bool {
    let mut rollouts = cluster.core.state().rollouts();
    rollouts.any(Rollout::is_held)
}

fn is_clean(cluster: &Cluster) -> bool {
    let mut switches = cluster.network.switches.values();
    switches.all(|it| it.routes.is_empty() && it.rules.is_empty())
}

#[test]
fn held_plan_waits_until_resumed() {
    for scene in [pinning, draining] {
        let (mut cluster, plan) = scene();
        cluster.network.switch("leaf0").mood = Mood::Deaf;
        cluster.apply(plan);
        cluster.run_until("instructed", |c| install_count(c) > 0);
        steered(&mut cluster, plan, Steering::Hold);
        cluster.network.switch("leaf0").mood = Mood::Obeys;
        let begun = install_count(&cluster);
        cluster.run_for(ONE_MINUTE);
        cluster.restart();
        cluster.reconnect();
        cluster.run_for(ONE_MINUTE);
        assert_eq!(install_count(&cluster), begun, "{cluster:?}");
        let change = status(&mut cluster).changes.remove(0);
        assert_eq!(change.stopped_by.as_deref(), Some("ada"));
        assert_eq!(change.waiting_for, [""; 0], "its round has ended");
        steered(&mut cluster, plan, Steering::Resume);
        cluster.run_until_ended(1);
        assert_eq!(cluster.last_outcome(), &Outcome::Committed);
        cluster.assert_one_generation();
    }
}

/// The abort comes after each log entry of an undisturbed plan.
#[test]
fn aborted_plan_is_never_committed() {
    for scene in [pinning, draining] {
        let (mut undisturbed, plan) = scene();
        let offered = undisturbed.log.len();
        undisturbed.apply(plan);
        undisturbed.run_until_ended(1);
        let mut taken_back = 0;
        for entries in offered..undisturbed.log.len() {
            let (mut cluster, plan) = scene();
            if entries > offered {
                cluster.apply(plan);
                cluster.run_until("so far", |c| c.log.len() >= entries);
            }
            steered(&mut cluster, plan, Steering::Abort);
            cluster.run_until_ended(1);
            let by = Author::Operator("ada".to_owned());
            assert_eq!(reasons(&cluster), [Reason::Aborted { by }], "{entries}");
            cluster.assert_one_generation();
            assert!(is_clean(&cluster), "{entries}: {cluster:?}");
            let is_back = matches!(cluster.last_outcome(), Outcome::RolledBack { .. });
            taken_back += usize::from(is_back);
        }
        assert!(taken_back > 1, "{taken_back}");
    }
}

#[test]
fn held_rollback_continues_on_abort() {
    let (mut cluster, plan) = pinning();
    cluster.apply(plan);
    cluster.run_until("verifying", |c| phase(c) == Some(Phase::Verifying));
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    steered(&mut cluster, plan, Steering::Abort);
    let twice = steer(&mut cluster, plan, Steering::Abort);
    let generation = plan;
    assert_eq!(twice, Response::Refused(Refused::GoesBack { generation }));
    cluster.run_until("held", |c| phase(c) == Some(Phase::Held));
    steered(&mut cluster, plan, Steering::Hold);
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    let begun = install_count(&cluster);
    cluster.run_for(ONE_MINUTE);
    assert_eq!(install_count(&cluster), begun);
    steered(&mut cluster, plan, Steering::Abort);
    cluster.run_until_ended(1);
    assert_rolled_back(&cluster);
}

#[test]
fn impossible_plan_control_is_refused() {
    let (mut cluster, plan) = pinning();
    let generation = Generation(77);
    let none = Response::Refused(Refused::NotUnderWay { generation });
    let offered = Response::Refused(Refused::NotUnderWay { generation: plan });
    for how in [Steering::Hold, Steering::Resume] {
        assert_eq!(steer(&mut cluster, generation, how), none);
        assert_eq!(steer(&mut cluster, plan, how), offered);
    }
    assert_eq!(steer(&mut cluster, generation, Steering::Abort), none);
    cluster.apply(plan);
    let goes_on = Response::Refused(Refused::NotStopped { generation: plan });
    assert_eq!(steer(&mut cluster, plan, Steering::Resume), goes_on);
}

/// The operator gets an alarm and resumes the plan.
#[test]
fn refused_rollback_waits_for_operator() {
    let (mut cluster, plan) = draining();
    cluster.apply(plan);
    cluster.run_until("installed", |c| !is_clean(c));
    cluster.run_for(Duration::from_millis(500));
    let refuses = "leaf0";
    cluster.network.switch(refuses).mood = Mood::Refuses;
    steered(&mut cluster, plan, Steering::Abort);
    cluster.run_until("held", is_held);
    let seen = status(&mut cluster);
    let change = &seen.changes[0];
    assert_eq!(change.phase, Phase::Held);
    let why = change.reasons.join("; ");
    assert!(why.contains("ada aborted it; leaf0 refused"), "{why}");
    assert_eq!(seen.alarms.len(), 1, "{:?}", seen.alarms);
    cluster.run_for(Duration::from_secs(1));
    cluster.network.switch(refuses).mood = Mood::Obeys;
    steered(&mut cluster, plan, Steering::Resume);
    let waited = cluster.run_until_ended(1);
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    assert!(is_clean(&cluster));
    assert!(matches!(cluster.last_outcome(), Outcome::RolledBack { .. }));
    let kernel = |reason: &Reason| {
        let refused = matches!(
            reason,
            Reason::Refused {
                refusal: InstallRefusal::Kernel { .. },
                ..
            }
        );
        assert!(!refused, "it was rolled back because it was aborted");
    };
    reasons(&cluster).iter().for_each(kernel);
}

/// It is also retried automatically, at long intervals.
#[test]
fn held_rollback_is_retried_rarely() {
    let (mut cluster, plan) = draining();
    cluster.apply(plan);
    cluster.run_until("installed", |c| !is_clean(c));
    cluster.run_for(Duration::from_millis(500));
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    steered(&mut cluster, plan, Steering::Abort);
    cluster.run_until("held", is_held);
    let (begun, refused) = (install_count(&cluster), cluster.now());
    cluster.run_for(ONE_MINUTE);
    let again = install_count(&cluster) - begun;
    assert!((1..=2).contains(&again), "{again} times since {refused:?}");
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until_ended(1);
    assert!(is_clean(&cluster));
}

/// An earlier coordinator would stop at such an entry.
#[test]
fn older_coordinators_get_no_new_entries() {
    let (mut cluster, plan) = pinning();
    cluster.founded = 0;
    cluster.restart();
    cluster.reconnect();
    let answer = steer(&mut cluster, plan, Steering::Abort);
    assert_eq!(
        answer,
        Response::Refused(Refused::ClusterVersionTooLow { needed: 1, has: 0 })
    );
    cluster.handle(Input::MinVersion { minor: 1 });
    cluster.restart();
    cluster.reconnect();
    assert_eq!(cluster.core.state().cluster_version(), 1);
    steered(&mut cluster, plan, Steering::Abort);
}

#[test]
fn log_entries_carry_their_version() {
    let (mut cluster, plan) = pinning();
    steered(&mut cluster, plan, Steering::Abort);
    let log = cluster.log.iter();
    let since: Vec<_> = log.map(|command| command.change.since()).collect();
    let (last, before) = since.split_last().expect("it has entries");
    assert_eq!(
        *last, 1,
        "what belongs together is as new as its newest part"
    );
    assert!(before.iter().all(|&since| since == 0), "{before:?}");
}

#[test]
fn viewers_control_no_plans() {
    let generation = Generation(1);
    for how in [Steering::Hold, Steering::Resume, Steering::Abort] {
        let request = Request::Steer { generation, how };
        let may = [Role::Operator, Role::Viewer].map(|role| request.may_be_asked_by(role));
        assert_eq!(may, [true, false]);
    }
}
