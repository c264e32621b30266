//! Small fabrics of fibres and cables, and plans for them, drawn by seed.

use reweave_common::circuit::Circuit;
use reweave_common::fabric::{Circuits, Fabric, FabricBuilder};
use reweave_common::migration_plan::Tables;
use reweave_common::split_mix::SplitMix64;

/// Those on which the planner of migrations is tested.
#[path = "../../coordinator/core/src/plan/migration/examples.rs"]
mod examples;

/// With circuits by which every host reaches every other, if any are found.
pub(crate) fn some_fabric(rng: &mut SplitMix64) -> Option<Fabric> {
    let bare = examples::some_fabric(rng);
    let circuits = (0..8).map(|_| examples::some_circuits(&bare, rng));
    let mut whole = circuits.filter(|circuits| is_whole(&bare, circuits));
    whole.next().map(|circuits| with_circuits(&bare, &circuits))
}

pub(crate) fn some_circuits(fabric: &Fabric, rng: &mut SplitMix64) -> Circuits {
    examples::some_circuits(fabric, rng)
}

pub(crate) fn some_tables(fabric: &Fabric, circuits: &Circuits, rng: &mut SplitMix64) -> Tables {
    examples::some_tables(fabric, circuits, rng)
}

pub(crate) fn is_whole(fabric: &Fabric, circuits: &Circuits) -> bool {
    let hosts = fabric.endpoints().count();
    let tables = examples::tables(fabric, circuits, &mut SplitMix64::new(0), true);
    tables.len() == hosts && tables.values().all(|it| it.towards.len() == hosts - 1)
}

/// The same fabric, as if these circuits had always been there.
fn with_circuits(fabric: &Fabric, circuits: &Circuits) -> Fabric {
    let mut builder = FabricBuilder::new();
    for (node, it) in fabric.nodes() {
        builder.add_node(&it.name, it.role).expect("a new name");
        let address = fabric.address(node).expect("every node has one");
        builder.set_address(node, address).expect("a new address");
    }
    for (_, optical) in fabric.opticals() {
        let added = builder.add_optical(&optical.name, optical.ports);
        added.expect("a new name");
    }
    let cables = fabric
        .links()
        .filter(|(id, _)| fabric.crossing(*id).is_none());
    for (_, cable) in cables {
        let ends = cable.ports().map(|port| port.node);
        let joined = builder.connect(ends, 1, cable.rate, cable.latency);
        joined.expect("they were not joined yet");
    }
    for fibre in fabric.fibres() {
        builder.add_fibre(fibre.clone()).expect("a free port");
    }
    for (optical, circuit) in all(circuits) {
        builder.set_circuit(optical, circuit).expect("free ports");
    }
    builder.build()
}

fn all(circuits: &Circuits) -> impl Iterator<Item = (reweave_common::ids::OpticalId, Circuit)> {
    let sets = circuits.iter();
    sets.flat_map(|(&optical, set)| set.iter().map(move |circuit| (optical, circuit)))
}
