//! Flows to hosts with several NICs: whatever is planned, each ends at the NIC to which it is addressed.

use reweave_common::fabric::Fabric;
use reweave_common::snapshot::Snapshot;

use super::plans::planned;
use crate::Policy;
use crate::mend::detour::ways;
use crate::mend::model::Model;
use crate::paths::{Atlas, Destination};
use crate::tests::scene::Scene;

/// Two pods of two hosts. NIC 0 of a host hangs on the first leaf of its pod, and NIC 1 on the second.
const RAILS: &str = r#"
    kind = "graph"
    node = [{ name = "h0", role = "host" }, { name = "h1", role = "host" },
            { name = "h2", role = "host" }, { name = "h3", role = "host" },
            { name = "leaf0-0", role = "switch" }, { name = "leaf0-1", role = "switch" },
            { name = "leaf1-0", role = "switch" }, { name = "leaf1-1", role = "switch" },
            { name = "spine0", role = "switch" }, { name = "spine1", role = "switch" }]
    nic = [{ host = "h0", to = "leaf0-0", gbps = 0.1 }, { host = "h0", to = "leaf0-1", gbps = 0.1 },
           { host = "h1", to = "leaf0-0", gbps = 0.1 }, { host = "h1", to = "leaf0-1", gbps = 0.1 },
           { host = "h2", to = "leaf1-0", gbps = 0.1 }, { host = "h2", to = "leaf1-1", gbps = 0.1 },
           { host = "h3", to = "leaf1-0", gbps = 0.1 }, { host = "h3", to = "leaf1-1", gbps = 0.1 }]
    link = [{ a = "leaf0-0", b = "spine0", gbps = 0.1 }, { a = "leaf0-0", b = "spine1", gbps = 0.1 },
            { a = "leaf0-1", b = "spine0", gbps = 0.1 }, { a = "leaf0-1", b = "spine1", gbps = 0.1 },
            { a = "leaf1-0", b = "spine0", gbps = 0.1 }, { a = "leaf1-0", b = "spine1", gbps = 0.1 },
            { a = "leaf1-1", b = "spine0", gbps = 0.1 }, { a = "leaf1-1", b = "spine1", gbps = 0.1 }]
"#;

/// Two flows that meet on their way from NIC 0 to NIC 0.
fn two_meet() -> Scene {
    let mut scene = Scene::of(RAILS);
    scene.flow("h0", "h2", &["leaf0-0", "spine0", "leaf1-0"]);
    scene.flow("h1", "h3", &["leaf0-0", "spine0", "leaf1-0"]);
    scene
}

fn alternatives(scene: &Scene, snapshot: &Snapshot) -> usize {
    let policy = Policy::default();
    let model = Model::new(snapshot, &policy);
    let mut atlas = Atlas::new(&scene.fabric);
    let flow = model.flows.first();
    flow.map_or(0, |flow| ways(&model, &mut atlas, flow).len())
}

#[test]
fn alternatives_keep_the_nic() {
    let scene = two_meet();
    let snapshot = scene.snapshot();
    let policy = Policy::default();
    let model = Model::new(&snapshot, &policy);
    let mut atlas = Atlas::new(&scene.fabric);
    let by_each_spine =
        ["spine0", "spine1"].map(|spine| scene.path("h0", "h2", &["leaf0-0", spine, "leaf1-0"]));
    assert_eq!(ways(&model, &mut atlas, &model.flows[0]), by_each_spine);
    // The spine has no choice, so it needs no pin.
    let plan = planned(&snapshot, &policy).expect("they leave a spine idle");
    let pins: Vec<_> = plan.pins.iter().map(|pin| (pin.at, pin.link)).collect();
    let up = scene.hop("leaf0-0", "spine1");
    assert_eq!(pins, [(up.from, up.link)]);
}

#[test]
fn path_to_other_nic_is_ignored() {
    let scene = two_meet();
    let mut snapshot = scene.snapshot();
    assert_eq!(alternatives(&scene, &snapshot), 2);
    let nic = Some(scene.hop("h2", "leaf1-1").link);
    for flow in &mut snapshot.flows {
        flow.nic = nic;
    }
    assert_eq!(alternatives(&scene, &snapshot), 0);
}

/// It might arrive at another NIC by any other path.
#[test]
fn flow_to_unknown_nic_stays() {
    let own_address = r#"{ name = "h2", role = "host", address = "10.0.0.3" }"#;
    let with_address = RAILS.replacen(r#"{ name = "h2", role = "host" }"#, own_address, 1);
    // By either spine, to either NIC.
    for (fabric, paths) in [(RAILS, 0), (&*with_address, 4)] {
        let mut scene = two_meet();
        scene.fabric = Fabric::parse("f.toml", fabric).unwrap();
        let mut snapshot = scene.snapshot();
        assert_eq!(alternatives(&scene, &snapshot), 2);
        snapshot.flows.iter_mut().for_each(|flow| flow.nic = None);
        assert_eq!(alternatives(&scene, &snapshot), paths, "{fabric}");
    }
}

/// Two NICs of a host at one switch are parallel links.
#[test]
fn leaf_sends_over_one_nic() {
    let scene = Scene::of(
        r#"
        kind = "graph"
        node = [{ name = "h0", role = "host" }, { name = "h1", role = "host" },
                { name = "leaf0", role = "switch" }]
        nic = [{ host = "h0", to = "leaf0", gbps = 1 }, { host = "h1", to = "leaf0", gbps = 1 },
               { host = "h1", to = "leaf0", gbps = 1 }]
        "#,
    );
    let mut atlas = Atlas::new(&scene.fabric);
    let [node, leaf] = ["h1", "leaf0"].map(|name| scene.node(name));
    let nics: Vec<_> = scene.fabric.links_between(node, leaf).collect();
    assert_eq!(atlas.choices(leaf, node), nics);
    for nic in nics {
        let to = Destination {
            node,
            nic: Some(nic),
        };
        assert_eq!((atlas.door(to), atlas.choices(leaf, to)), (leaf, vec![nic]));
    }
}
