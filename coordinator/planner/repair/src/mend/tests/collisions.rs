//! Snapshots with a collision, and snapshots that only resemble one.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::finding::{Collision, Finding};
use reweave_common::flow::FlowKey;
use reweave_common::snapshot::Snapshot;
use reweave_common::units::Rate;

use crate::mend::best::best;
use crate::mend::{Model, atlas};
use crate::tests::scene::{Scene, mbps};
use crate::{Policy, repair};

const SPINE0_PATH: [&str; 3] = ["leaf0", "spine0", "leaf1"];
const SPINE1_PATH: [&str; 3] = ["leaf0", "spine1", "leaf1"];

/// Two flows meet on one of two uplinks.
fn two_meet() -> Scene {
    let mut scene = Scene::leaf_spine(2, 2, 4, 100, 100);
    scene.flow("h0", "h4", &SPINE0_PATH);
    scene.flow("h1", "h5", &SPINE0_PATH);
    scene
}

fn found(scene: &Scene) -> Vec<Collision> {
    found_in(&scene.snapshot())
}

fn found_in(snapshot: &Snapshot) -> Vec<Collision> {
    let findings = repair(snapshot, &Policy::default()).into_findings();
    let findings = findings.into_iter();
    findings
        .filter_map(|finding| match finding {
            Finding::EcmpCollision(collision) => Some(collision),
            _ => None,
        })
        .collect()
}

fn losers(collision: &Collision) -> Vec<FlowKey> {
    collision.losers.iter().map(|loser| loser.flow).collect()
}

fn near(rate: Rate, mbps: f64) -> bool {
    (rate.mbps() - mbps).abs() < 0.1
}

#[test]
fn two_elephants_on_uplink_collide() {
    let scene = two_meet();
    let [collision] = &found(&scene)[..] else {
        panic!("one collision, reported once")
    };
    assert_eq!(collision.hop, scene.hop("leaf0", "spine0"));
    assert_eq!(collision.with_room, [scene.hop("leaf0", "spine1")]);
    assert_eq!(collision.utilization, 1.0);
    assert_eq!(
        (
            collision.imbalance.fim_percent,
            collision.imbalance.floor_percent
        ),
        (100.0, 0.0)
    );
    assert_eq!(
        losers(collision),
        scene.flows.iter().map(|flow| flow.flow).collect::<Vec<_>>()
    );
    for loser in &collision.losers {
        assert!(
            near(loser.rate, 47.85) && near(loser.fair_rate, 95.7),
            "{loser:?}"
        );
    }
}

#[test]
fn flows_meeting_on_downlink_collide() {
    let mut scene = Scene::leaf_spine(3, 2, 2, 100, 100);
    scene.flow("h0", "h4", &["leaf0", "spine0", "leaf2"]);
    scene.flow("h2", "h5", &["leaf1", "spine0", "leaf2"]);
    let [collision] = &found(&scene)[..] else {
        panic!("one collision")
    };
    assert_eq!(collision.hop, scene.hop("spine0", "leaf2"));
    assert_eq!(collision.with_room, [scene.hop("spine1", "leaf2")]);
    assert_eq!(collision.imbalance.fim_percent, 100.0);
    assert_eq!(collision.losers.len(), 2);
}

#[test]
fn parallel_links_are_paths() {
    let mut scene = Scene::of(
        r#"
        kind = "graph"
        node = [{ name = "a", role = "host" }, { name = "b", role = "host" },
                { name = "c", role = "host" }, { name = "d", role = "host" },
                { name = "x", role = "switch" }, { name = "y", role = "switch" }]
        link = [{ a = "a", b = "x", gbps = 0.1 }, { a = "b", b = "x", gbps = 0.1 },
                { a = "c", b = "y", gbps = 0.1 }, { a = "d", b = "y", gbps = 0.1 },
                { a = "x", b = "y", gbps = 0.1, count = 2 }]
        "#,
    );
    scene.flow("a", "c", &["x", "y"]);
    scene.flow("b", "d", &["x", "y"]);
    let [collision] = &found(&scene)[..] else {
        panic!("one collision")
    };
    assert_eq!(scene.fabric.link_name(collision.with_room[0].link), "x-y.1");
}

#[test]
fn three_flows_gain_best_spread() {
    let mut scene = two_meet();
    scene.flow("h2", "h6", &SPINE0_PATH);
    let [collision] = &found(&scene)[..] else {
        panic!("one collision")
    };
    let fair: Vec<_> = collision
        .losers
        .iter()
        .map(|loser| loser.fair_rate.mbps().round())
        .collect();
    assert_eq!(fair, [96.0, 48.0, 48.0]);
}

/// Returns a scene with greedy flows on two uplinks of 100 Mb/s.
fn spread(here: usize, there: usize) -> Scene {
    let mut scene = Scene::leaf_spine(2, 2, 32, 100, 100);
    for host in 0..here + there {
        let via = if host < here {
            &SPINE0_PATH
        } else {
            &SPINE1_PATH
        };
        scene.flow(&format!("h{host}"), &format!("h{}", 32 + host), via);
    }
    scene
}

#[test]
fn full_link_may_have_room() {
    let scene = spread(3, 1);
    let [collision] = &found(&scene)[..] else {
        panic!("one collision")
    };
    assert_eq!(collision.hop, scene.hop("leaf0", "spine0"));
    assert_eq!(collision.with_room, [scene.hop("leaf0", "spine1")]);
    let imbalance = collision.imbalance;
    assert_eq!(
        (imbalance.fim_percent, imbalance.floor_percent),
        (50.0, 0.0)
    );
    assert_eq!(collision.losers.len(), 3);
    for loser in &collision.losers {
        assert!(near(loser.rate, 31.9) && near(loser.fair_rate, 47.85));
    }
}

#[test]
fn larger_collisions_are_found_whole() {
    for (here, there) in [(15, 1), (12, 0), (30, 0)] {
        let scene = spread(here, there);
        let [collision] = &found(&scene)[..] else {
            panic!("one collision of {here} with {there} elsewhere")
        };
        assert_eq!(collision.losers.len(), here);
        assert_eq!(collision.imbalance.floor_percent, 0.0);
    }
}

#[test]
fn no_gain_elsewhere_no_collision() {
    for (here, there) in [(2, 2), (8, 8), (2, 1), (8, 7), (1, 1)] {
        assert_eq!(found(&spread(here, there)), [], "{here} and {there}");
    }
    let mut scene = two_meet();
    scene.strangers("spine1", "leaf1", 95);
    assert_eq!(found(&scene), [], "the other way is full further down");
}

#[test]
fn end_host_bottleneck_is_no_collision() {
    let mut scene = Scene::leaf_spine(2, 2, 4, 100, 100);
    scene.flow("h0", "h4", &SPINE0_PATH);
    scene.flow("h1", "h4", &SPINE0_PATH);
    assert_eq!(found(&scene), [], "both end at h4");
    let mut scene = Scene::leaf_spine(2, 2, 4, 100, 100);
    scene.flow("h0", "h4", &SPINE0_PATH);
    scene.flow("h0", "h5", &SPINE0_PATH);
    assert_eq!(found(&scene), [], "both begin at h0");
}

#[test]
fn only_neighbour_of_limited_flow_loses() {
    let mut scene = Scene::leaf_spine(2, 3, 4, 100, 100);
    scene.flow("h0", "h4", &SPINE0_PATH);
    scene.flow("h2", "h4", &SPINE1_PATH);
    let neighbour = scene.flow("h1", "h5", &SPINE0_PATH);
    let [collision] = &found(&scene)[..] else {
        panic!("one collision")
    };
    assert_eq!(losers(collision), [neighbour]);
}

#[test]
fn mice_do_not_collide() {
    let mut scene = Scene::leaf_spine(2, 2, 8, 1000, 1000);
    for host in 0..8 {
        scene.modest(
            &format!("h{host}"),
            &format!("h{}", host + 8),
            &SPINE0_PATH,
            9,
        );
    }
    scene.strangers("leaf0", "spine0", 900);
    assert!(scene.snapshot().links[&scene.hop("leaf0", "spine0")].rate >= mbps(900));
    assert_eq!(found(&scene), []);
}

#[test]
fn elephant_among_mice_is_alone() {
    let mut scene = Scene::leaf_spine(2, 2, 8, 100, 100);
    scene.flow("h0", "h8", &SPINE0_PATH);
    scene.modest("h1", "h9", &SPINE0_PATH, 9);
    assert_eq!(found(&scene), []);
}

#[test]
fn self_limited_flow_gains_nothing() {
    let mut scene = Scene::leaf_spine(2, 2, 4, 100, 100);
    let modest = scene.modest("h0", "h4", &SPINE0_PATH, 30);
    let greedy = scene.flow("h1", "h5", &SPINE0_PATH);
    let [collision] = &found(&scene)[..] else {
        panic!("one collision")
    };
    assert_eq!(losers(collision), [greedy]);
    assert!(!losers(collision).contains(&modest));
}

#[test]
fn unknown_state_is_no_evidence() {
    let scene = two_meet();
    let changed = |change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = scene.snapshot();
        change(&mut snapshot);
        found_in(&snapshot).len()
    };
    let full = [scene.hop("leaf0", "spine0"), scene.hop("spine0", "leaf1")];
    let room = scene.hop("leaf0", "spine1");
    let old = Duration::from_secs(4);
    let aged = |s: &mut Snapshot, hop| s.links.get_mut(&hop).unwrap().age = old;
    assert_eq!(changed(&|_| ()), 1);
    assert_eq!(changed(&|s| s.flows[0].path = None), 0, "unknown path");
    assert_eq!(
        changed(&|s| s.flows[0].path.as_mut().unwrap().truncate(3)),
        0,
        "path ends early"
    );
    assert_eq!(changed(&|s| s.flows[0].age = old), 0, "old flow");
    assert_eq!(
        changed(&|s| full.into_iter().for_each(|hop| aged(s, hop))),
        0,
        "old load"
    );
    assert_eq!(changed(&|s| aged(s, room)), 0, "old room");
    assert_eq!(
        changed(&|s| s.links.retain(|hop, _| *hop != room)),
        0,
        "unmeasured room"
    );
    assert_eq!(
        changed(&|s| s.links.get_mut(&room).unwrap().up = false),
        0,
        "no way"
    );
}

#[test]
fn path_older_than_pin_is_ignored() {
    let mut scene = two_meet();
    let flow = scene.flows[0].flow;
    scene.pin(flow, "leaf0", "spine1");
    assert_eq!(found(&scene), []);
}

#[test]
fn gain_within_measured_range_is_none() {
    let scene = two_meet();
    let mut snapshot = scene.snapshot();
    for flow in &mut snapshot.flows {
        flow.rate_range = [mbps(20), mbps(70)];
    }
    assert_eq!(found_in(&snapshot), []);
}

#[test]
fn even_shares_move_nothing() {
    let scene = spread(16, 16);
    let (snapshot, policy) = (scene.snapshot(), Policy::default());
    let model = Model::new(&snapshot, &policy);
    let answer = best(&model, &mut atlas(&model.observed), &BTreeSet::new());
    assert!(!answer.is_a_change() && answer.lost.is_empty());
}
