//! Effects of plans.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::flow::FlowKey;
use reweave_common::plan::{Generation, Iteration, LostBecause, Move, Pin, Plan};
use reweave_common::snapshot::{Hop, PeriodicJob, Snapshot};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Bytes;

use crate::mend::best::RUNS;
use crate::tests::scene::{Scene, mbps};
use crate::{Policy, repair};

const SPINE0_PATH: [&str; 3] = ["leaf0", "spine0", "leaf1"];

fn two_meet() -> Scene {
    let mut scene = Scene::leaf_spine(2, 2, 4, 100, 100);
    scene.flow("h0", "h4", &SPINE0_PATH);
    scene.flow("h1", "h5", &SPINE0_PATH);
    scene
}

pub(super) fn planned(snapshot: &Snapshot, policy: &Policy) -> Option<Plan> {
    repair(snapshot, policy).into_plan()
}

fn planned_for(scene: &Scene) -> Option<Plan> {
    planned(&scene.snapshot(), &Policy::default())
}

fn pin(scene: &Scene, flow: usize, at: &str, next: &str) -> Pin {
    let Hop { from: at, link } = scene.hop(at, next);
    Pin {
        flow: scene.flows[flow].flow,
        at,
        link,
    }
}

#[test]
fn one_move_doubles_two_flows() {
    let scene = two_meet();
    let plan = planned_for(&scene).unwrap();
    assert_eq!(
        (plan.parent, plan.generation),
        (Generation(4), Generation(5))
    );
    assert_eq!(plan.pins, [pin(&scene, 0, "leaf0", "spine1")]);
    let [from, to] = ["spine0", "spine1"].map(|spine| scene.hop("leaf0", spine));
    assert_eq!(
        plan.moves,
        [Move {
            flow: scene.flows[0].flow,
            from,
            to
        }]
    );
    assert_eq!(plan.predictions.len(), 2);
    for predicted in &plan.predictions {
        assert!((predicted.after.mbps() - 95.7).abs() < 0.1, "{predicted:?}");
        assert!(
            predicted.low < predicted.after && predicted.after < predicted.high,
            "{predicted:?}"
        );
        assert!(
            predicted.low > mbps(90) && predicted.high <= mbps(100),
            "{predicted:?}"
        );
    }
}

#[test]
fn report_lists_rejected_alternatives() {
    let report = planned_for(&two_meet()).unwrap().report;
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.slowest_before.mbps().round(), 48.0);
    assert_eq!(report.slowest_after.mbps().round(), 96.0);
    let weighed: Vec<_> = report
        .alternatives
        .iter()
        .map(|other| {
            (
                other.moves.len(),
                other.slowest_after.mbps().round(),
                other.lost_because,
            )
        })
        .collect();
    // The present assignment, without a move.
    assert_eq!(weighed, [(0, 48.0, LostBecause::Slower)]);
}

#[test]
fn slow_flows_outweigh_fewer_moves() {
    let mut scene = two_meet();
    for (from, to) in [("h4", "h0"), ("h5", "h1")] {
        scene.flow(from, to, &["leaf1", "spine0", "leaf0"]);
    }
    let report = planned_for(&scene).unwrap().report;
    let weighed = report.alternatives.iter();
    let weighed = weighed.map(|other| (other.moves.len(), other.slowest_after.mbps().round()));
    assert_eq!(weighed.collect::<Vec<_>>(), [(0, 48.0), (1, 48.0)]);
    assert_eq!(report.slowest_after.mbps().round(), 96.0);
}

#[test]
fn blocking_flow_moves_when_helpful() {
    // Only spine1 has room towards leaf1, and a flow to leaf2 uses it that could use spine2.
    let mut scene = Scene::leaf_spine(3, 3, 4, 100, 100);
    scene.flow("h0", "h4", &SPINE0_PATH);
    scene.flow("h1", "h5", &SPINE0_PATH);
    let aside = scene.flow("h2", "h8", &["leaf0", "spine1", "leaf2"]);
    scene.strangers("spine2", "leaf1", 95);
    let plan = planned_for(&scene).unwrap();
    assert_eq!(plan.moves.len(), 2);
    assert!(
        plan.moves.iter().any(|moved| moved.flow == aside),
        "{:?}",
        plan.moves
    );
    assert_eq!(plan.report.slowest_after.mbps().round(), 96.0);
}

#[test]
fn no_flow_pays_for_another() {
    let mut scene = two_meet();
    scene.modest("h2", "h6", &["leaf0", "spine1", "leaf1"], 80);
    assert_eq!(
        planned_for(&scene),
        None,
        "sharing with 80 Mb/s gives no more than half"
    );
}

#[test]
fn plan_needs_sure_gain() {
    let mut snapshot = two_meet().snapshot();
    for flow in &mut snapshot.flows {
        flow.rate_range = [mbps(20), mbps(70)];
    }
    assert_eq!(planned(&snapshot, &Policy::default()), None);
}

#[test]
fn collision_is_optimized_once() {
    let (snapshot, policy) = (two_meet().snapshot(), Policy::default());
    let runs_before = RUNS.get();
    let repair = repair(&snapshot, &policy);
    assert_eq!(repair.findings().len(), 1);
    assert!(repair.into_plan().is_some());
    assert_eq!(RUNS.get() - runs_before, 1);
}

#[test]
fn pins_outlive_only_living_flows() {
    let mut scene = two_meet();
    let kept = scene.flow("h4", "h0", &["leaf1", "spine0", "leaf0"]);
    let kept = scene.pin(kept, "leaf1", "spine0");
    let moved = scene.flows[0].flow;
    scene.pin(moved, "leaf0", "spine0");
    let ended = FlowKey {
        source: "10.9.9.9:9".parse().unwrap(),
        ..moved
    };
    scene.pin(ended, "leaf0", "spine0");
    let mut expected = vec![pin(&scene, 0, "leaf0", "spine1"), kept];
    expected.sort();
    assert_eq!(planned_for(&scene).unwrap().pins, expected);
}

/// Sets what was measured of one flow, and of the links at its ends.
fn measure(snapshot: &mut Snapshot, flow: usize, rate_mbps: u64) {
    let state = &mut snapshot.flows[flow];
    (state.rate, state.rate_range) = (mbps(rate_mbps), [mbps(rate_mbps - 1), mbps(rate_mbps + 1)]);
    let path = state.path.as_ref().unwrap();
    for hop in [path[0], path[3]] {
        snapshot.links.get_mut(&hop).unwrap().rate = mbps(rate_mbps);
    }
}

#[test]
fn uneven_neighbours_widen_interval() {
    let mut snapshot = two_meet().snapshot();
    measure(&mut snapshot, 0, 36);
    measure(&mut snapshot, 1, 60);
    let plan = planned(&snapshot, &Policy::default()).unwrap();
    let [small, large] = &plan.predictions[..] else {
        panic!("two flows")
    };
    // By the hop both reach 96; by the flow the first doubles to 72, and the second cannot.
    assert_eq!((small.after, small.low), (mbps(96), mbps(70)));
    assert!(
        small.high > mbps(98) && large.high == mbps(100),
        "{small:?} {large:?}"
    );
    assert!(large.low < large.after && large.low > mbps(94), "{large:?}");
}

/// A fabric of hosts a to z on switches, and links between switches; all of 100 Mb/s.
fn wired(hosts: &[(&str, &str)], trunks: &[(&str, &str, u32)]) -> Scene {
    let switches: BTreeSet<_> = trunks.iter().flat_map(|(a, b, _)| [a, b]).collect();
    let node = |name: &str, role| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let link = |a: &str, b: &str, count| {
        format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 0.1\ncount = {count}\n")
    };
    let mut text = String::from("kind = \"graph\"\n");
    text.extend(hosts.iter().map(|(host, _)| node(host, "host")));
    text.extend(switches.iter().map(|switch| node(switch, "switch")));
    text.extend(hosts.iter().map(|(host, switch)| link(host, switch, 1)));
    text.extend(trunks.iter().map(|&(a, b, count)| link(a, b, count)));
    Scene::of(&text)
}

#[test]
fn downstream_choice_is_pinned_too() {
    // Between t and y there are two links: hashing chooses again.
    let hosts = [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")];
    let mut scene = wired(
        &hosts,
        &[("x", "s", 1), ("x", "t", 1), ("s", "y", 1), ("t", "y", 2)],
    );
    scene.flow("a", "c", &["x", "s", "y"]);
    scene.flow("b", "d", &["x", "s", "y"]);
    let plan = planned_for(&scene).unwrap();
    assert_eq!(plan.moves.len(), 1);
    let mut expected = [pin(&scene, 0, "x", "t"), pin(&scene, 0, "t", "y")];
    expected.sort();
    assert_eq!(plan.pins, expected);
}

#[test]
fn gains_enabled_by_moves_are_used() {
    // All three paths from x to z are full; w is on a path to y only. When the flow to y has moved there, one of the
    // two that share a hop towards z can take its place.
    let hosts = [
        ("a", "x"),
        ("b", "x"),
        ("c", "x"),
        ("d", "x"),
        ("e", "y"),
        ("f", "y"),
        ("g", "z"),
        ("h", "z"),
    ];
    let ups = ["s", "t", "u", "w"].map(|spine| ("x", spine, 1));
    let downs = ["s", "t", "u", "w"].map(|spine| (spine, "y", 1));
    let more = ["s", "t", "u"].map(|spine| (spine, "z", 1));
    let mut scene = wired(&hosts, &[&ups[..], &downs[..], &more[..]].concat());
    let first = scene.flow("a", "e", &["x", "s", "y"]);
    scene.modest("b", "f", &["x", "s", "y"], 25);
    let then = ["c", "d"].map(|from| (from, if from == "c" { "g" } else { "h" }));
    let then = then.map(|(from, to)| scene.flow(from, to, &["x", "t", "z"]));
    scene.strangers("x", "u", 95);
    let plan = planned_for(&scene).unwrap();
    let moved: Vec<_> = plan.moves.iter().map(|moved| moved.flow).collect();
    assert!(moved.len() == 2 && moved[0] == first && then.contains(&moved[1]));
}

#[test]
fn flows_without_finding_stay() {
    // From leaf1, three flows fill both links, and none would gain elsewhere.
    let mut scene = two_meet();
    for (from, to, spine) in [
        ("h4", "h0", "spine0"),
        ("h5", "h1", "spine0"),
        ("h6", "h2", "spine1"),
    ] {
        scene.flow(from, to, &["leaf1", spine, "leaf0"]);
    }
    let plan = planned_for(&scene).unwrap();
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(plan.moves[0].flow, scene.flows[0].flow);
    assert_eq!(plan.predictions.len(), 2);
}

#[test]
fn superfluous_move_is_undone() {
    // The first two share an uplink, the last two a downlink: moving the second is enough, but flow by flow the first
    // is moved first.
    let mut scene = Scene::leaf_spine(3, 4, 2, 100, 100);
    scene.flow("h0", "h2", &["leaf0", "spine0", "leaf1"]);
    let second = scene.flow("h1", "h4", &["leaf0", "spine0", "leaf2"]);
    scene.flow("h3", "h5", &["leaf1", "spine0", "leaf2"]);
    for most_evaluations in [16, 5000] {
        let policy = Policy {
            most_evaluations,
            ..Policy::default()
        };
        let plan = planned(&scene.snapshot(), &policy).unwrap();
        let moved: Vec<_> = plan.moves.iter().map(|moved| moved.flow).collect();
        assert_eq!(moved, [second], "with {most_evaluations} evaluations");
    }
}

#[test]
fn heuristic_improves_beyond_evaluation_limit() {
    let mut scene = Scene::leaf_spine(2, 8, 16, 100, 100);
    for host in 0..8 {
        scene.flow(
            &format!("h{host}"),
            &format!("h{}", host + 16),
            &SPINE0_PATH,
        );
    }
    let snapshot = scene.snapshot();
    let policy = Policy {
        most_evaluations: 1500,
        ..Policy::default()
    };
    let plan = planned(&snapshot, &policy).unwrap();
    assert_eq!(
        (plan.moves.len(), plan.report.slowest_after.mbps().round()),
        (7, 96.0)
    );
}

/// Of two spines with room, one loses packets: the flow takes the other. It stays if only the lossy one has room.
#[test]
fn plan_avoids_lossy_link() {
    for (lossy, other) in [("spine1", "spine2"), ("spine2", "spine1")] {
        let mut scene = Scene::leaf_spine(2, 3, 4, 100, 100);
        scene.flow("h0", "h4", &SPINE0_PATH);
        scene.flow("h1", "h5", &SPINE0_PATH);
        let mut snapshot = scene.snapshot();
        let link = scene.hop("leaf0", lossy).link;
        snapshot.lossy.insert(link, 0.05);
        let plan = planned(&snapshot, &Policy::default()).unwrap();
        assert_eq!(plan.pins, [pin(&scene, 0, "leaf0", other)], "{lossy}");
    }
    let scene = two_meet();
    let mut snapshot = scene.snapshot();
    let only = scene.hop("leaf0", "spine1").link;
    snapshot.lossy.insert(only, 0.05);
    assert_eq!(planned(&snapshot, &Policy::default()), None);
    snapshot.lossy.insert(only, 0.0005);
    assert!(
        planned(&snapshot, &Policy::default()).is_some(),
        "a little is no matter"
    );
}

/// At the other leaf no flow chooses a spine.
#[test]
fn plan_pins_at_no_unpinnable_switch() {
    let scene = two_meet();
    let mut snapshot = scene.snapshot();
    snapshot.unpinnable = BTreeSet::from([scene.node("leaf1"), scene.node("spine1")]);
    let plan = planned(&snapshot, &Policy::default()).unwrap();
    assert_eq!(plan.pins, [pin(&scene, 0, "leaf0", "spine1")]);
    snapshot.unpinnable = BTreeSet::from([scene.node("leaf0")]);
    let policy = Policy::default();
    let repair = repair(&snapshot, &policy);
    assert_eq!(repair.findings().len(), 1);
    assert_eq!(repair.into_plan(), None);
}

/// The job of these flows does nothing but send, or rests for this long.
fn beating(scene: &Scene, flows: &[usize], gap_ms: u64) -> Snapshot {
    let snapshot = scene.snapshot();
    let carried = flows.iter().map(|&flow| {
        let flow = scene.flows[flow].flow;
        let state = snapshot.flows.iter().find(|it| it.flow == flow).unwrap();
        (flow, state.rate)
    });
    let job = PeriodicJob {
        job: "a job".to_owned(),
        exchanged: BTreeMap::from([(scene.node("h0"), Bytes::new(1_000_000))]),
        flows: carried.collect(),
        period: TimeSpan::from_millis(200),
        gap: TimeSpan::from_millis(gap_ms),
    };
    Snapshot {
        beating: vec![job],
        ..snapshot
    }
}

fn promised(snapshot: &Snapshot) -> Vec<[f64; 3]> {
    let plan = planned(snapshot, &Policy::default()).unwrap();
    let promised = plan.iterations.iter();
    let ms = |it: &Iteration| [it.low, it.after, it.high].map(|it| it.as_secs_f64() * 1e3);
    promised.map(ms).collect()
}

#[test]
fn iteration_lasts_until_last_flow() {
    let [[low, after, high]] = promised(&beating(&two_meet(), &[0, 1], 0))[..] else {
        panic!("one job, reported once")
    };
    assert!((98.0..105.0).contains(&after), "{after}");
    assert!((90.0..after).contains(&low) && (after..110.0).contains(&high));
    // Another of its flows, which shares no full hop, has nearly twice the rate.
    let mut scene = two_meet();
    scene.flow("h2", "h3", &["leaf0"]);
    scene.flows[2].most = Some(mbps(90));
    let [[.., after, _]] = promised(&beating(&scene, &[0, 1, 2], 0))[..] else {
        panic!("one job, reported once")
    };
    assert!((170.0..=200.0).contains(&after), "{after}");
}

#[test]
fn rest_time_stays_constant() {
    let [[low, after, high]] = promised(&beating(&two_meet(), &[0, 1], 40))[..] else {
        panic!("one job, reported once")
    };
    assert!((110.0..150.0).contains(&after), "{after}");
    assert!(low > 40.0 && high < 200.0, "{low} {high}");
}

#[test]
fn unknown_or_unchanged_jobs_lack_prediction() {
    let mut scene = two_meet();
    scene.flow("h2", "h3", &["leaf0"]);
    assert_eq!(promised(&beating(&scene, &[2], 0)), [[0.0; 3]; 0]);
    let mut snapshot = beating(&scene, &[0, 2], 0);
    for state in &mut snapshot.flows {
        if state.flow == scene.flows[2].flow {
            state.path = None;
        }
    }
    assert_eq!(promised(&snapshot), [[0.0; 3]; 0]);
}
