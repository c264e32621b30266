//! Plans that would overload links.

use reweave_check::{Overload, Unsound};
use reweave_common::operator::{Refused, Request, Response};
use reweave_common::plan::Generation;
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::scene::*;
use crate::Reason;

/// A plan to repair a collision, outdated: the flow that would stay sends little now, and a third flow uses the new
/// link of the other one.
fn outdated_plan() -> (Cluster, Generation) {
    let (mut cluster, flows, plan) = planned();
    let moved = moved(&cluster);
    let staying = flows.into_iter().find(|flow| *flow != moved).unwrap();
    let sender = cluster.network.flows[&staying].from;
    cluster.network.caps.insert(sender, 10e6);
    cluster.network.start("h2", "h5", 1002, 1);
    cluster.run_for(3 * SETTLE_TIME);
    (cluster, plan)
}

#[test]
fn plan_into_full_link_is_refused() {
    let (mut cluster, generation) = outdated_plan();
    let answer = cluster.ask(Request::Apply { generation });
    let Response::Refused(Refused::Unfit { reasons: said }) = answer else {
        panic!("{answer:?}")
    };
    let expected = "it is unsound: leaf0-spine1 would have to carry";
    assert!(said.iter().any(|it| it.starts_with(expected)), "{said:?}");
    let reasons = reasons(&cluster);
    let overloads = reasons.iter().filter_map(|reason| match reason {
        Reason::Unsound(Unsound::Overload(overload)) => Some(overload),
        _ => None,
    });
    let at_leaf = |it: &&Overload| it.from == "leaf0";
    let overloads: Vec<_> = overloads.filter(at_leaf).collect();
    assert_eq!(overloads.len(), 1, "{reasons:?}");
    let Overload { load, rate, .. } = overloads[0];
    assert_eq!(*rate, Rate::from_bits_per_s(100_000_000));
    assert!((140.0..160.0).contains(&load.mbps()), "{load}");
    assert_nothing_installed(&cluster);
}

/// The previous release cannot read this reason of a refusal.
#[test]
fn earlier_release_judges_no_loads() {
    let (mut cluster, generation) = outdated_plan();
    cluster.founded = 0;
    cluster.restart();
    cluster.reconnect();
    cluster.run_for(3 * SETTLE_TIME);
    cluster.apply(generation);
}
