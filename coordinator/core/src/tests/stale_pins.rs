//! Pins that are no longer useful.

use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::operator::{Finding, Mode, Request, Response, Useless};

use super::cluster::Cluster;
use super::mock_switch::Mood;
use super::network::Network;
use super::scene::*;
use crate::{Author, Outcome, Policy, Reason};

/// A kept change that moved one flow to the other spine; the flow and the spine.
fn committed(mode: Mode) -> (Cluster, FlowKey, String) {
    let (mut cluster, _) = collision(mode);
    cluster.run_for(SETTLE_TIME);
    if mode == Mode::Manual {
        let plan = cluster.plan();
        cluster.apply(plan);
    }
    cluster.run_until_ended(1);
    let (pinned, spine) = pinned(&cluster);
    (cluster, pinned, spine)
}

fn pinned(cluster: &Cluster) -> (FlowKey, String) {
    let pinned = cluster.core.state().in_force().pins[0].flow;
    let spine = cluster.network.uplink(&pinned);
    (pinned, spine.strip_prefix("leaf0-").unwrap().to_owned())
}

fn findings(cluster: &mut Cluster) -> Vec<Finding> {
    match cluster.ask(Request::Diagnose) {
        Response::Findings(found) => found.findings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn dead_pin_is_removed_at_once() {
    let (mut cluster, pinned, spine) = committed(Mode::Auto);
    cluster.network.fail(&spine, "leaf1");
    assert!(!cluster.network.arrives(&pinned));
    let took = cluster.run_until_ended(2);
    assert!(took < Duration::from_secs(2), "no cool-down: {took:?}");
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert!(cluster.network.arrives(&pinned));
    assert!(cluster.core.state().in_force().pins.is_empty());
    cluster.assert_one_generation();
    let lift = cluster.core.state().history().next_back().unwrap();
    assert!(lift.plan.only_lifts() && lift.proposed.by == Author::Policy);
}

/// The decision does not wait for its interval.
#[test]
fn link_failure_triggers_immediate_decision() {
    for phase_s in [0, 1, 2, 3, 4] {
        let policy = Policy {
            mode: Mode::Auto,
            look_every: Duration::from_secs(5),
            ..Policy::default()
        };
        let mut cluster = Cluster::with(Network::new(2, 3), policy);
        for (from, to, port) in [("h0", "h3", 1000), ("h1", "h4", 1001)] {
            cluster.network.start(from, to, port, 0);
        }
        cluster.run_until_ended(1);
        cluster.run_for(Duration::from_secs(phase_s));
        let (_, spine) = pinned(&cluster);
        cluster.network.fail(&spine, "leaf1");
        let took = cluster.run_until_ended(2);
        assert!(took < Duration::from_secs(2), "{took:?}, {phase_s} s later");
    }
}

#[test]
fn dead_pin_stays_removed_despite_contention() {
    let (mut cluster, pinned, spine) = committed(Mode::Auto);
    cluster.network.fail(&spine, "leaf1");
    let other = |cluster: &Cluster| {
        let rates = cluster.network.rates();
        rates
            .into_iter()
            .find(|(flow, _)| *flow != pinned)
            .unwrap()
            .1
    };
    let before = other(&cluster);
    cluster.run_until_ended(2);
    assert!(other(&cluster) < 0.6 * before);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
}

#[test]
fn manual_mode_dead_pin_raises_alarm() {
    let (mut cluster, pinned, spine) = committed(Mode::Manual);
    cluster.network.fail(&spine, "leaf1");
    cluster.run_for(SETTLE_TIME);
    assert_eq!(cluster.core.state().ended(), 1, "nothing unasked");
    let alarms = status(&mut cluster).alarms.join("; ");
    assert!(
        alarms.contains("the path from there is blocked") && alarms.contains("reweave plan"),
        "{alarms}"
    );
    let [Finding::UselessPin(found)] = &findings(&mut cluster)[..] else {
        panic!("one finding")
    };
    assert_eq!((found.flow, &found.hop.to), (pinned, &spine));
    let links = vec![format!("leaf1-{spine}")];
    assert_eq!(found.because, Useless::WayDown { links });
    let plan = cluster.plan();
    cluster.apply(plan);
    cluster.run_until_ended(2);
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    assert!(cluster.network.arrives(&pinned));
    cluster.run_for(SETTLE_TIME);
    assert!(status(&mut cluster).alarms.is_empty());
}

#[test]
fn pin_beside_failed_link_stays() {
    let (mut cluster, pinned, spine) = committed(Mode::Auto);
    let other = if spine == "spine0" {
        "spine1"
    } else {
        "spine0"
    };
    cluster.network.fail(other, "leaf1");
    cluster.run_for(Duration::from_secs(5));
    assert_eq!(cluster.core.state().ended(), 1);
    assert!(cluster.network.arrives(&pinned));
}

#[test]
fn unpin_offer_lapses_when_path_recovers() {
    let (mut cluster, _, spine) = committed(Mode::Manual);
    cluster.network.fail(&spine, "leaf1");
    cluster.run_for(SETTLE_TIME);
    cluster.plan();
    cluster.network.mend(&spine, "leaf1");
    cluster.run_until_ended(2);
    assert_eq!(reasons(&cluster), [Reason::NothingToMend]);
    assert_eq!(cluster.core.state().in_force().pins.len(), 1);
}

#[test]
fn refused_unpin_is_retried() {
    let (mut cluster, pinned, spine) = committed(Mode::Auto);
    cluster.network.switch("leaf0").mood = Mood::Refuses;
    cluster.network.fail(&spine, "leaf1");
    cluster.run_until_ended(2);
    assert!(matches!(cluster.last_outcome(), Outcome::RolledBack { .. }));
    cluster.network.switch("leaf0").mood = Mood::Obeys;
    cluster.run_until("it arrives", |c| c.network.arrives(&pinned));
}

#[test]
fn ended_flow_unpinned_after_cool_down() {
    let (mut cluster, pinned, _) = committed(Mode::Auto);
    cluster.network.end(pinned);
    let took = cluster.run_until_ended(2);
    assert!((8..12).contains(&took.as_secs()), "{took:?}");
    assert_eq!(cluster.last_outcome(), &Outcome::Committed);
    cluster.assert_one_generation();
    assert!(cluster.network.switch("leaf0").rules.is_empty());
}

#[test]
fn manual_mode_reports_pins_without_flow() {
    let (mut cluster, pinned, _) = committed(Mode::Manual);
    cluster.network.end(pinned);
    cluster.run_for(Duration::from_secs(30));
    assert_eq!(cluster.core.state().ended(), 1);
    let status = status(&mut cluster);
    assert!(status.alarms.is_empty(), "no flow suffers");
    let [useless] = &status.useless_pins[..] else {
        panic!("{:?}", status.useless_pins)
    };
    assert_eq!(
        (useless.flow, &useless.because),
        (pinned, &Useless::FlowEnded)
    );
    assert!(findings(&mut cluster).is_empty());
    let plan = cluster.plan();
    cluster.apply(plan);
    cluster.run_until_ended(2);
    assert!(cluster.network.switch("leaf0").rules.is_empty());
}
