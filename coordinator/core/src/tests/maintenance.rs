//! Work on a switch: what is drained for it, and what keeps it so.

use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::operator::{
    MaintenanceStage::{self, Draining, Returning, Working},
    MaintenanceStatus, Mode, Refused, Request, Response,
};
use reweave_common::plan::Generation;

use super::cluster::Cluster;
use super::network::Network;
use super::scene::{SETTLE_TIME, status};
use crate::Outcome;

const THREE_LEAVES: &str = "kind = \"leaf-spine\"\nleaves = 3\nspines = 3\nhosts_per_leaf = 4\n\
    host_gbps = 0.2\nuplink_gbps = 0.1";

fn cluster() -> Cluster {
    let mut cluster = Cluster::on(Network::of(THREE_LEAVES), Mode::Manual);
    cluster.network.start("h1", "h5", 1001, 1);
    cluster.run_for(SETTLE_TIME);
    cluster
}

fn bring(cluster: &mut Cluster, name: &str, stage: Option<MaintenanceStage>) -> Response {
    let name = name.to_owned();
    cluster.ask(Request::Maintain { name, stage })
}

#[track_caller]
fn planned(response: Response) -> Generation {
    match response {
        Response::Plan {
            plan: Some(plan), ..
        } => plan.generation,
        other => panic!("no plan: {other:?}"),
    }
}

#[track_caller]
fn noted(response: &Response) {
    assert!(
        matches!(response, Response::Plan { plan: None, .. }),
        "{response:?}"
    );
}

#[track_caller]
fn refused(response: Response) -> Refused {
    match response {
        Response::Refused(refused) => refused,
        other => panic!("{other:?}"),
    }
}

fn carry_out(cluster: &mut Cluster, generation: Generation) {
    cluster.apply(generation);
    cluster.run_until("ended", |it| it.core.state().rollouts().next().is_none());
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
}

#[track_caller]
fn under_maintenance(cluster: &mut Cluster) -> MaintenanceStatus {
    let [only] = <[_; 1]>::try_from(status(cluster).maintenance).unwrap();
    only
}

fn drained(cluster: &mut Cluster) {
    let generation = planned(bring(cluster, "spine1", Some(Draining)));
    carry_out(cluster, generation);
    cluster.run_for(SETTLE_TIME);
}

fn goes_over(cluster: &Cluster, spine: &str) -> usize {
    let uplinks = cluster.network.flows.keys();
    let uplinks = uplinks.map(|flow| cluster.network.uplink(flow));
    uplinks.filter(|it| it.ends_with(spine)).count()
}

#[test]
fn maintenance_drains_and_restores_switch() {
    let mut cluster = cluster();
    let early = planned(bring(&mut cluster, "spine1", Some(Draining)));
    let Refused::NotEmpty { reasons } = refused(bring(&mut cluster, "spine1", Some(Working)))
    else {
        panic!("it carries something");
    };
    let led = ["leaf0", "leaf1", "leaf2"].map(|leaf| format!("routes use {leaf}-spine1"));
    assert_eq!(reasons, led);
    carry_out(&mut cluster, early);
    cluster.run_for(SETTLE_TIME);
    assert_eq!(goes_over(&cluster, "spine1"), 0);
    let now = under_maintenance(&mut cluster);
    assert_eq!(
        (&now.name[..], now.stage, &now.by[..]),
        ("spine1", Draining, "ada")
    );
    assert_eq!(now.links, ["leaf0-spine1", "leaf1-spine1", "leaf2-spine1"]);
    assert!(now.not_empty.is_empty(), "{now:?}");
    noted(&bring(&mut cluster, "spine1", Some(Working)));
    let back = planned(bring(&mut cluster, "spine1", Some(Returning)));
    carry_out(&mut cluster, back);
    noted(&bring(&mut cluster, "spine1", None));
    assert!(status(&mut cluster).maintenance.is_empty());
    assert_eq!(goes_over(&cluster, "spine1"), 1);
    assert!(
        cluster
            .network
            .switches
            .values()
            .all(|it| it.routes.is_empty())
    );
}

/// Checks maintenance under any leader, and with any other drains.
#[test]
fn maintenance_survives_new_leader_and_drains() {
    let mut cluster = cluster();
    drained(&mut cluster);
    cluster.restart();
    cluster.reconnect();
    cluster.run_for(SETTLE_TIME);
    assert_eq!(under_maintenance(&mut cluster).stage, Draining);
    let none = cluster.ask(Request::Drain { links: vec![] });
    assert_eq!(refused(none), Refused::NothingToChange);
    let links = vec!["leaf0-spine0".to_owned()];
    let besides = planned(cluster.ask(Request::Drain { links }));
    carry_out(&mut cluster, besides);
    assert_eq!(goes_over(&cluster, "spine1"), 0);
    let links = vec![];
    let alone = planned(cluster.ask(Request::Drain { links }));
    carry_out(&mut cluster, alone);
    assert_eq!(goes_over(&cluster, "spine1"), 0);
}

/// Routes for other purposes keep the device drained.
#[test]
fn other_plan_keeps_maintenance_drain() {
    let mut cluster = cluster();
    planned(bring(&mut cluster, "spine1", Some(Draining)));
    let other = planned(bring(&mut cluster, "spine2", Some(Draining)));
    carry_out(&mut cluster, other);
    assert_eq!(goes_over(&cluster, "spine0"), 1);
}

/// Other nodes keep routes that avoid the device, so it may go up and down.
#[test]
fn switch_in_maintenance_may_flap() {
    let mut cluster = cluster();
    drained(&mut cluster);
    noted(&bring(&mut cluster, "spine1", Some(Working)));
    let spine: NodeId = cluster.network.node("spine1");
    for leaf in ["leaf0", "leaf1", "leaf2"] {
        cluster.network.fail(leaf, "spine1");
    }
    cluster.run_for(SETTLE_TIME);
    // Another link fails, and new routes are made meanwhile.
    cluster.network.fail("leaf0", "spine0");
    cluster.run_for(SETTLE_TIME);
    let around = cluster.plan();
    carry_out(&mut cluster, around);
    cluster.disconnect(spine);
    for leaf in ["leaf0", "leaf1", "leaf2"] {
        cluster.network.mend(leaf, "spine1");
    }
    cluster.run_for(SETTLE_TIME);
    assert_eq!(goes_over(&cluster, "spine1"), 0);
    let now = under_maintenance(&mut cluster);
    assert!(
        now.not_empty.is_empty(),
        "the other ends tell it: {:?}",
        now.not_empty
    );
}

/// Counters prove idleness, not routes.
#[test]
fn traffic_over_drained_switch_is_seen() {
    let mut cluster = cluster();
    drained(&mut cluster);
    let defiant = cluster.network.start("h2", "h6", 1002, 1);
    cluster.network.switch("leaf0").routes.clear();
    cluster.network.switch("leaf1").routes.clear();
    cluster.run_for(SETTLE_TIME);
    assert_eq!(cluster.network.uplink(&defiant), "leaf0-spine1");
    let Refused::NotEmpty { reasons } = refused(bring(&mut cluster, "spine1", Some(Working)))
    else {
        panic!("packets pass it");
    };
    assert!(
        reasons.iter().any(|it| it.contains("packets still passed")),
        "{reasons:?}"
    );
}

#[test]
fn earlier_drain_outlives_maintenance() {
    let mut cluster = cluster();
    let links = vec!["leaf0-spine1".to_owned()];
    let first = planned(cluster.ask(Request::Drain { links }));
    carry_out(&mut cluster, first);
    drained(&mut cluster);
    let back = planned(bring(&mut cluster, "spine1", Some(Returning)));
    carry_out(&mut cluster, back);
    noted(&bring(&mut cluster, "spine1", None));
    let drained = status(&mut cluster).links.into_iter();
    let mut drained: Vec<_> = drained
        .filter(|it| it.drained)
        .map(|it| it.hop.link)
        .collect();
    drained.dedup();
    assert_eq!(drained, ["leaf0-spine1"]);
}

#[test]
fn impossible_maintenance_is_refused_by_name() {
    let mut cluster = cluster();
    let mut said = |name: &str, stage| refused(bring(&mut cluster, name, stage)).to_string();
    let leaf = said("leaf1", Some(Draining));
    assert_eq!(
        leaf,
        "without these links leaf0 has no equally short path to h4"
    );
    assert!(said("h0", Some(Draining)).contains("hosts cannot be put under maintenance"));
    assert_eq!(
        said("spine9", Some(Draining)),
        "the fabric has no switch named \"spine9\", and hosts cannot be put under maintenance"
    );
    for stage in [Some(Working), Some(Returning), None] {
        assert_eq!(said("spine1", stage), "spine1 is not under maintenance");
    }
    assert!(status(&mut cluster).maintenance.is_empty());
}

fn held_by(refused: Refused) -> (String, MaintenanceStage, u64) {
    match refused {
        Refused::UnderMaintenance {
            by, stage, age_s, ..
        } => (by, stage, age_s),
        other => panic!("{other:?}"),
    }
}

/// The command of one operator may run, and another one would return the switch to traffic.
#[test]
fn maintenance_belongs_to_one_operator() {
    let mut cluster = cluster();
    drained(&mut cluster);
    noted(&bring(&mut cluster, "spine1", Some(Working)));
    cluster.run_for(Duration::from_secs(25));
    for stage in [Some(Draining), Some(Working), Some(Returning), None] {
        let name = "spine1".to_owned();
        let answer = cluster.ask_as("bob", Request::Maintain { name, stage });
        let held = held_by(refused(answer));
        assert_eq!(held, ("ada".to_owned(), Working, 25), "{stage:?}");
    }
    let now = under_maintenance(&mut cluster);
    assert_eq!((now.stage, &now.by[..]), (Working, "ada"));
    let other_shell = bring(&mut cluster, "spine1", Some(Working));
    assert_eq!(held_by(refused(other_shell)).0, "ada");
    let back = planned(bring(&mut cluster, "spine1", Some(Returning)));
    carry_out(&mut cluster, back);
    noted(&bring(&mut cluster, "spine1", None));
}

#[test]
fn taken_over_maintenance_keeps_its_stage() {
    let mut cluster = cluster();
    let take_over = |cluster: &mut Cluster| {
        let name = "spine1".to_owned();
        cluster.ask_as("bob", Request::TakeOver { name })
    };
    let none = refused(take_over(&mut cluster));
    assert!(matches!(none, Refused::NotUnderMaintenance { .. }));
    drained(&mut cluster);
    noted(&bring(&mut cluster, "spine1", Some(Working)));
    noted(&take_over(&mut cluster));
    let now = under_maintenance(&mut cluster);
    assert_eq!((now.stage, &now.by[..]), (Working, "bob"));
    assert_eq!(goes_over(&cluster, "spine1"), 0);
    let loser = refused(bring(&mut cluster, "spine1", Some(Returning)));
    assert_eq!(held_by(loser).0, "bob");
    let name = "spine1".to_owned();
    let stage = Some(Returning);
    let back = planned(cluster.ask_as("bob", Request::Maintain { name, stage }));
    carry_out(&mut cluster, back);
    assert_eq!(goes_over(&cluster, "spine1"), 1);
}

/// A second device may be under maintenance, but not the last one.
#[test]
fn several_switches_share_maintenance() {
    let mut cluster = cluster();
    drained(&mut cluster);
    let second = planned(bring(&mut cluster, "spine0", Some(Draining)));
    carry_out(&mut cluster, second);
    assert_eq!(goes_over(&cluster, "spine2"), 1);
    let last = refused(bring(&mut cluster, "spine2", Some(Draining)));
    assert!(matches!(last, Refused::CutOff { .. }), "{last:?}");
    let back = planned(bring(&mut cluster, "spine0", Some(Returning)));
    carry_out(&mut cluster, back);
    assert_eq!(goes_over(&cluster, "spine1"), 0);
}
