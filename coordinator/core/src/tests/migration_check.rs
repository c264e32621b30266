//! Migration plans that are checked step by step, with other work in between.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::operator::{Mode, Refused, Request, Response};
use reweave_common::plan::{Generation, Plan};

use super::cluster::Cluster;
use super::network::Network;
use super::scene::{SETTLE_TIME, reasons};
use crate::{Author, Change, Effect, Input, Reason};

/// A proposed plan: leaf0 sends to h4 over spine0 alone, and then spine1 sends to h4 over leaf0.
fn cluster() -> (Cluster, Generation) {
    let mut cluster = Cluster::on(Network::new(3, 4), Mode::Manual);
    cluster.core.judge_leg_by_leg();
    cluster.run_for(SETTLE_TIME);
    let [leaf, spine, other, to] =
        ["leaf0", "spine0", "spine1", "h4"].map(|name| cluster.network.node(name));
    let fabric = &cluster.network.fabric;
    let tables = [(leaf, spine), (other, leaf)].map(|(at, next)| {
        let link = fabric.links_between(at, next).next().unwrap();
        let towards = BTreeMap::from([(to, vec![NextHop { link, weight: 1 }])]);
        let raises = vec![];
        (
            at,
            ForwardingTable {
                at,
                towards,
                raises,
            },
        )
    });
    let state = cluster.core.state();
    let generation = state.next_generation();
    let plan = Plan {
        tables: BTreeMap::from(tables),
        ..Plan::empty(generation, state.in_force().generation)
    };
    cluster.propose(plan, Author::Policy);
    (cluster, generation)
}

/// Agents report the state of links.
fn report(cluster: &mut Cluster) {
    cluster.stall(Duration::from_millis(100));
    cluster.report();
}

fn flap(cluster: &mut Cluster, change: usize) {
    match change % 2 {
        0 => cluster.network.mend("leaf0", "spine2"),
        _ => cluster.network.fail("leaf0", "spine2"),
    }
    report(cluster);
}

fn has_departed(cluster: &Cluster) -> bool {
    let mut parts = cluster.log.iter().flat_map(|it| it.change.parts());
    parts.any(|part| matches!(part, Change::Departed(_)))
}

/// All replies, the latest last.
fn replies(cluster: &Cluster) -> Vec<&Response> {
    let replies = cluster.effects.iter().filter_map(|effect| match effect {
        Effect::Reply { response, .. } => Some(response),
        _ => None,
    });
    replies.collect()
}

#[test]
fn status_is_answered_between_steps() {
    let (mut cluster, generation) = cluster();
    cluster.tell(Request::Apply { generation });
    cluster.handle(Input::Tick);
    assert!(cluster.core.is_judging(), "one of two steps is left");
    cluster.tell(Request::Status);
    assert!(matches!(replies(&cluster)[..], [Response::Status(_)]));
    assert!(!has_departed(&cluster));
    cluster.handle(Input::Tick);
    let started = Response::ApplyStarted { generation };
    assert_eq!(replies(&cluster).last(), Some(&&started));
    assert!(has_departed(&cluster) && !cluster.core.is_judging());
}

#[test]
fn failed_link_restarts_trial() {
    let (mut cluster, generation) = cluster();
    cluster.tell(Request::Apply { generation });
    cluster.handle(Input::Tick);
    cluster.network.fail("leaf0", "spine2");
    report(&mut cluster);
    for left in [2, 1] {
        cluster.handle(Input::Tick);
        assert!(cluster.core.is_judging(), "{left} steps are left");
        assert!(!has_departed(&cluster) && replies(&cluster).is_empty());
    }
    cluster.handle(Input::Tick);
    assert_eq!(replies(&cluster), [&Response::ApplyStarted { generation }]);
    assert!(has_departed(&cluster));
}

/// A verdict holds for one capacity floor.
#[test]
fn changed_policy_restarts_trial() {
    let (mut cluster, generation) = cluster();
    cluster.tell(Request::Apply { generation });
    cluster.handle(Input::Tick);
    let settings = BTreeMap::from([("capacity_floor".to_owned(), Some("0.6".to_owned()))]);
    let expected = None;
    cluster.tell(Request::PolicySet { settings, expected });
    let answered = replies(&cluster);
    assert!(
        matches!(answered[..], [Response::Policy(_)]),
        "{answered:?}"
    );
    for left in [2, 1] {
        cluster.handle(Input::Tick);
        assert!(cluster.core.is_judging(), "{left} steps are left");
        assert!(!has_departed(&cluster));
    }
    cluster.handle(Input::Tick);
    let started = Response::ApplyStarted { generation };
    assert_eq!(replies(&cluster).last(), Some(&&started));
}

/// All steps were sound before.
#[test]
fn migration_over_failed_link_is_refused() {
    let (mut cluster, generation) = cluster();
    cluster.tell(Request::Apply { generation });
    cluster.handle(Input::Tick);
    cluster.network.fail("leaf0", "spine0");
    report(&mut cluster);
    cluster.handle(Input::Tick);
    let answered = replies(&cluster);
    let is_unfit = matches!(answered[..], [Response::Refused(Refused::Unfit { .. })]);
    assert!(is_unfit, "{answered:?}");
    let reasons = reasons(&cluster);
    assert!(matches!(reasons[..], [Reason::Unsound(_)]), "{reasons:?}");
    assert!(!has_departed(&cluster) && !cluster.core.is_judging());
}

/// Flapping links must not delay the plan forever.
#[test]
fn flapping_network_is_checked_at_once() {
    let (mut cluster, generation) = cluster();
    cluster.tell(Request::Apply { generation });
    for change in 1..=4 {
        cluster.handle(Input::Tick);
        assert!(cluster.core.is_judging(), "before change {change}");
        flap(&mut cluster, change);
        cluster.handle(Input::Tick);
    }
    assert_eq!(replies(&cluster), [&Response::ApplyStarted { generation }]);
}

/// The verdict is completed by the last request.
#[test]
fn all_waiting_requests_are_answered() {
    let (mut cluster, generation) = cluster();
    cluster.tell(Request::Apply { generation });
    for change in 1..=4 {
        assert!(replies(&cluster).is_empty(), "before change {change}");
        flap(&mut cluster, change);
        cluster.tell(Request::Apply { generation });
    }
    cluster.handle(Input::Tick);
    let answered = replies(&cluster);
    let started = Response::ApplyStarted { generation };
    let has_started = |response: &&&Response| **response == &started;
    assert_eq!(answered.len(), 5, "{answered:?}");
    assert_eq!(answered.iter().filter(has_started).count(), 1);
}
