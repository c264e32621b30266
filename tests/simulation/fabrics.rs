//! Small random fabrics.

use std::time::Duration;

use reweave_common::fabric::{Fabric, FabricBuilder, Role};
use reweave_common::ids::NodeId;
use reweave_common::units::Rate;
use reweave_sim_cluster::chance::Chance;

/// Leaves and spines, or two pods of leaves with two layers of switches above them.
pub(crate) fn some_fabric(chance: &mut Chance) -> Fabric {
    let [leaves, spines, hosts] = [0; 3].map(|_| 2 + chance.below(3));
    let mut builder = FabricBuilder::new();
    let add = |builder: &mut FabricBuilder, kind: &str, count: usize, role| -> Vec<NodeId> {
        let names = (0..count).map(|index| format!("{kind}{index}"));
        names
            .map(|name| builder.add_node(&name, role).expect("a new name"))
            .collect()
    };
    let hosts = add(&mut builder, "h", leaves * hosts, Role::Host);
    let leaves = add(&mut builder, "leaf", leaves, Role::Switch);
    let spines = add(&mut builder, "spine", spines, Role::Switch);
    for (index, host) in hosts.iter().enumerate() {
        join(&mut builder, [*host, leaves[index % leaves.len()]], 0.4);
    }
    if chance.happens(0.5) {
        join_all(&mut builder, &leaves, &spines);
        return builder.build();
    }
    let middle = add(&mut builder, "mid", 4, Role::Switch);
    let (left, right) = leaves.split_at(leaves.len() / 2);
    join_all(&mut builder, left, &middle[..2]);
    join_all(&mut builder, right, &middle[2..]);
    join_all(&mut builder, &middle, &spines);
    builder.build()
}

fn join_all(builder: &mut FabricBuilder, below: &[NodeId], above: &[NodeId]) {
    for low in below {
        above
            .iter()
            .for_each(|high| join(builder, [*low, *high], 0.2));
    }
}

fn join(builder: &mut FabricBuilder, ends: [NodeId; 2], gbps: f64) {
    let rate = Rate::from_gbps(gbps).expect("a rate");
    let joined = builder.connect(ends, 1, rate, Duration::ZERO);
    joined.expect("they were not joined yet");
}
