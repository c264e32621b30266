//! Failing links: which ones the policy drains, and which are left to operators.

use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::health::Signal;
use reweave_common::operator::{Finding, Mode, Request, Response};

use super::cluster::Cluster;
use super::diagnosis::{causes, health, hop, probe_for, say};
use super::network::Network;
use super::scene::{SETTLE_TIME, reasons, set_policy, status};
use crate::{Author, Outcome, Policy, Reason};

const LOSSY_LINK: &str = "leaf0-spine1";
const DRAIN_DELAY: Duration = Duration::from_secs(10);
/// Longer than the whole scenario takes.
const SCENARIO_TIME: Duration = Duration::from_secs(30);

fn policy() -> Policy {
    Policy {
        mode: Mode::Auto,
        drain_failing_after: DRAIN_DELAY,
        ..Policy::default()
    }
}

/// The link up from the first leaf to the second spine loses packets, and the leaf's counters show it.
fn failing(policy: Policy) -> Cluster {
    let mut cluster = Cluster::with(Network::new(4, 4), policy);
    cluster.run_for(SETTLE_TIME);
    let lossy = hop(&cluster, "leaf0", "spine1");
    cluster.network.lossy.insert(lossy);
    cluster
}

/// A second, with probes.
fn go_on(cluster: &mut Cluster) {
    let leaf = cluster.network.node("leaf0");
    let port = cluster.network.interface(leaf, "spine1");
    say(cluster, "leaf0", vec![health(&port, Signal::SendDrops, 20)]);
    probe_for(cluster, Duration::from_secs(1));
}

fn go_on_for(cluster: &mut Cluster, duration: Duration) {
    (0..duration.as_secs()).for_each(|_| go_on(cluster));
}

/// Runs until this is so, and returns the time that it took.
fn go_on_until(cluster: &mut Cluster, is_so: impl Fn(&mut Cluster) -> bool) -> Duration {
    let began = cluster.now();
    while !is_so(cluster) {
        go_on(cluster);
        let waited = cluster.now().since(began);
        assert!(waited < 3 * SCENARIO_TIME, "{cluster:?}");
    }
    cluster.now().since(began)
}

fn is_found(cluster: &mut Cluster) -> bool {
    causes(cluster).iter().any(|cause| cause.confidence > 0.9)
}

/// A flow that hashes to that link.
fn newcomer(cluster: &mut Cluster) -> FlowKey {
    cluster.network.start("h2", "h6", 1003, 1)
}

fn ended(cluster: &Cluster) -> usize {
    cluster.core.state().history().count()
}

fn release(cluster: &mut Cluster) {
    let links = Vec::new();
    let Response::Plan {
        plan: Some(plan), ..
    } = cluster.ask(Request::Drain { links })
    else {
        panic!("no plan")
    };
    cluster.apply(plan.generation);
    cluster.run_until_ended(2);
}

#[test]
fn policy_drains_failing_link_naming_finding() {
    let mut cluster = failing(policy());
    let flow = newcomer(&mut cluster);
    go_on_until(&mut cluster, is_found);
    let took = go_on_until(&mut cluster, |it| ended(it) == 1);
    assert!(took >= DRAIN_DELAY, "{took:?}");
    let ended = cluster
        .core
        .state()
        .history()
        .next()
        .expect("it is drained");
    assert_eq!(
        (&ended.outcome, &ended.proposed.by),
        (&Outcome::Committed, &Author::Policy)
    );
    let [finding] = &ended.plan.report.findings[..] else {
        panic!("{ended:#?}")
    };
    let named = Finding::named(finding, &cluster.network.fabric);
    assert!(
        matches!(named, Finding::Cause(cause) if cause.subject.to_string().contains(LOSSY_LINK))
    );
    assert_ne!(cluster.network.uplink(&flow), LOSSY_LINK);
    let drained: Vec<_> = status(&mut cluster).links;
    let drained = drained.iter().filter(|link| link.drained);
    assert!(drained.count() > 0);
}

/// Nothing diagnoses links in manual mode, so it is unknown whether the failure lasted.
#[test]
fn failure_lasts_in_automatic_mode_only() {
    let mut cluster = failing(policy());
    go_on_until(&mut cluster, is_found);
    set_policy(&mut cluster, "mode", "\"manual\"");
    go_on_for(&mut cluster, SCENARIO_TIME);
    assert_eq!(ended(&cluster), 0);
    set_policy(&mut cluster, "mode", "\"auto\"");
    let took = go_on_until(&mut cluster, |it| ended(it) == 1);
    assert!(took >= DRAIN_DELAY, "{took:?}");
}

/// Whether the link was repaired is unknown until it is used: otherwise it would be drained again and again.
#[test]
fn restored_link_is_left_to_operator() {
    let mut cluster = failing(policy());
    go_on_until(&mut cluster, |it| ended(it) == 1);
    release(&mut cluster);
    go_on_until(&mut cluster, is_found);
    go_on_for(&mut cluster, SCENARIO_TIME);
    assert_eq!(ended(&cluster), 2, "{:#?}", cluster.last_outcome());
    let flow = newcomer(&mut cluster);
    assert_eq!(cluster.network.uplink(&flow), LOSSY_LINK);
}

#[test]
fn capacity_floor_blocks_drain_with_reason() {
    let floor = Policy {
        capacity_floor: 0.8,
        ..policy()
    };
    let mut cluster = failing(floor);
    go_on_until(&mut cluster, is_found);
    go_on_for(&mut cluster, SCENARIO_TIME);
    assert_eq!(ended(&cluster), 0);
    let waits = status(&mut cluster).waits_because.unwrap_or_default();
    assert!(
        waits.contains(LOSSY_LINK) && waits.contains("leaf0 would keep less"),
        "{waits}"
    );
}

/// A drain that was rolled back is not retried every 30 s.
#[test]
fn needed_link_is_not_drained_again() {
    let mut cluster = failing(policy());
    for place in 0..4 {
        let [from, to] = [place, 4 + place].map(|host| format!("h{host}"));
        cluster
            .network
            .start(&from, &to, 1000 + place as u16, place);
    }
    go_on_until(&mut cluster, |it| ended(it) == 1);
    go_on_for(&mut cluster, SCENARIO_TIME);
    let slower = |reason: &Reason| matches!(reason, Reason::GotSlower { .. });
    assert!(
        reasons(&cluster).iter().any(slower),
        "{:?}",
        reasons(&cluster)
    );
    assert_eq!(ended(&cluster), 1);
}

#[test]
fn manual_mode_drains_no_failing_link() {
    let manual = Policy {
        mode: Mode::Manual,
        ..policy()
    };
    let mut cluster = failing(manual);
    go_on_until(&mut cluster, is_found);
    go_on_for(&mut cluster, SCENARIO_TIME);
    assert_eq!(ended(&cluster), 0);
}

/// No routing protocol removes paths that routes of the agent use.
#[test]
fn our_routes_avoid_second_failed_link() {
    let mut cluster = failing(policy());
    go_on_until(&mut cluster, |it| ended(it) == 1);
    let flow = cluster.network.start("h1", "h5", 1001, 2);
    cluster.run_for(SETTLE_TIME);
    assert_eq!(cluster.network.uplink(&flow), "leaf0-spine2");
    cluster.network.fail("leaf1", "spine2");
    assert!(!cluster.network.arrives(&flow));
    cluster.run_for(Duration::from_secs(5));
    assert!(
        cluster.network.arrives(&flow),
        "{}",
        cluster.network.uplink(&flow)
    );
    cluster.run_for(Duration::from_secs(12));
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    assert!(cluster.network.arrives(&flow));
}
