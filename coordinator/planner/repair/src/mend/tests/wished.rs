//! Predictions for requested plans.

use std::collections::BTreeMap;

use reweave_common::flow::FlowKey;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::plan::{Generation, Plan, Prediction};
use reweave_common::snapshot::Snapshot;

use crate::tests::scene::Scene;
use crate::{Policy, promised};

/// Two flows, each over a spine of its own.
fn apart() -> (Scene, [FlowKey; 2]) {
    let mut scene = Scene::leaf_spine(2, 2, 4, 100, 100);
    let one = scene.flow("h0", "h4", &["leaf0", "spine0", "leaf1"]);
    let other = scene.flow("h1", "h5", &["leaf0", "spine1", "leaf1"]);
    (scene, [one, other])
}

/// Returns the table with which leaf0 sends everything to this spine.
fn only(scene: &Scene, spine: &str) -> ForwardingTable {
    let link = scene.hop("leaf0", spine).link;
    let hosts = ["h4", "h5", "h6", "h7"].map(|name| scene.node(name));
    let towards = hosts.map(|to| (to, vec![NextHop { link, weight: 1 }]));
    ForwardingTable {
        at: scene.node("leaf0"),
        towards: BTreeMap::from(towards),
        raises: Vec::new(),
    }
}

fn planned(snapshot: &Snapshot) -> Plan {
    Plan {
        pins: snapshot.pins.clone(),
        tables: snapshot.tables.clone(),
        ..Plan::empty(Generation(5), Generation(4))
    }
}

fn predicted(snapshot: &Snapshot, plan: &Plan) -> Vec<Prediction> {
    promised(snapshot, plan, &Policy::default()).predictions
}

fn mbps(predicted: &Prediction) -> [f64; 4] {
    let Prediction {
        before,
        after,
        low,
        high,
        ..
    } = predicted;
    [before, after, low, high].map(|rate| rate.mbps().round())
}

#[test]
fn flows_sharing_one_path_halve() {
    let (scene, flows) = apart();
    let snapshot = scene.snapshot();
    let mut plan = planned(&snapshot);
    let table = only(&scene, "spine1");
    plan.tables.insert(table.at, table);
    let predicted = predicted(&snapshot, &plan);
    assert_eq!(
        predicted.iter().map(|it| it.flow).collect::<Vec<_>>(),
        flows
    );
    for it in &predicted {
        let [before, after, low, high] = mbps(it);
        assert_eq!((before, after), (96.0, 48.0), "{it:?}");
        assert!(low <= 48.0 && (48.0..50.0).contains(&high), "{it:?}");
    }
}

/// It is unknown which of two paths a switch will choose: the prediction covers both.
#[test]
fn prediction_covers_all_path_choices() {
    let mut scene = Scene::leaf_spine(2, 2, 4, 100, 100);
    for (from, to) in [("h0", "h4"), ("h1", "h5")] {
        scene.flow(from, to, &["leaf0", "spine1", "leaf1"]);
    }
    let mut snapshot = scene.snapshot();
    let plan = planned(&snapshot);
    let table = only(&scene, "spine1");
    snapshot.tables.insert(table.at, table);
    let predicted = predicted(&snapshot, &plan);
    assert_eq!(predicted.len(), 2);
    for it in &predicted {
        let [before, after, low, high] = mbps(it);
        assert_eq!((before, after), (48.0, 72.0), "{it:?}");
        assert!(low <= 48.0 && high >= 95.0, "{it:?}");
    }
}

#[test]
fn unpinned_flow_follows_tables() {
    let (mut scene, [pinned, _]) = apart();
    scene.pin(pinned, "leaf0", "spine0");
    let mut snapshot = scene.snapshot();
    let table = only(&scene, "spine1");
    snapshot.tables.insert(table.at, table);
    let mut plan = planned(&snapshot);
    assert_eq!(predicted(&snapshot, &plan), []);
    plan.pins.clear();
    let after = predicted(&snapshot, &plan)
        .iter()
        .map(|it| mbps(it)[1])
        .collect::<Vec<_>>();
    assert_eq!(after, [48.0, 48.0]);
}

/// On a lossy link a flow has a lower rate than it could have.
#[test]
fn flow_leaving_lossy_link_may_grow() {
    let mut scene = Scene::leaf_spine(2, 2, 4, 100, 100);
    scene.modest("h0", "h4", &["leaf0", "spine0", "leaf1"], 7);
    let mut snapshot = scene.snapshot();
    let lossy = scene.hop("leaf0", "spine0").link;
    snapshot.lossy.insert(lossy, 0.05);
    let mut plan = planned(&snapshot);
    let table = only(&scene, "spine1");
    plan.tables.insert(table.at, table);
    let [predicted] = &predicted(&snapshot, &plan)[..] else {
        panic!("it is predicted")
    };
    let [before, after, low, high] = mbps(predicted);
    assert!(low <= before && high >= 95.0, "{predicted:?}");
    assert!(after > before && after <= high, "{predicted:?}");
}

#[test]
fn unchanged_flows_get_no_prediction() {
    let (mut scene, _) = apart();
    scene.modest("h2", "h6", &["leaf0", "spine0", "leaf1"], 1);
    let snapshot = scene.snapshot();
    assert_eq!(predicted(&snapshot, &planned(&snapshot)), []);
}
