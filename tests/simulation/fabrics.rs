//! Small random fabrics.

use std::time::Duration;

use reweave_common::fabric::{Fabric, FabricBuilder, NicSpec, Role};
use reweave_common::ids::NodeId;
use reweave_common::units::Rate;
use reweave_sim_cluster::chance::Chance;

/// Leaves and spines, or two pods of leaves with two layers of switches above them, or in a third of the draws two pods
/// of hosts with several NICs.
pub(crate) fn some_fabric(chance: &mut Chance) -> Fabric {
    if chance.below(3) == 0 {
        return some_rails(chance);
    }
    let [leaves, spines, hosts] = [0; 3].map(|_| 2 + chance.below(3));
    let mut builder = FabricBuilder::new();
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

/// What is asked of these worlds is what is asked of all: pins are planned for them, and no drains. Those of single rails
/// are refused so far, since routes lead to a host by one address.
fn some_rails(chance: &mut Chance) -> Fabric {
    let rails = 2 + 2 * chance.below(2);
    rails_fabric(&Rails {
        hosts_per_pod: 2 + chance.below(2),
        rails,
        leaves_per_pod: *chance.one_of(&[rails, rails / 2]),
        spines: 2 + chance.below(2),
    })
}

/// Two pods of hosts with a NIC on each rail.
pub(crate) struct Rails {
    pub(crate) hosts_per_pod: usize,
    pub(crate) rails: usize,
    /// Rails take them in turn: where there are more rails, some hosts have parallel links to a leaf.
    pub(crate) leaves_per_pod: usize,
    pub(crate) spines: usize,
}

pub(crate) fn rails_fabric(shape: &Rails) -> Fabric {
    let mut builder = FabricBuilder::new();
    let hosts = add(&mut builder, "h", 2 * shape.hosts_per_pod, Role::Host);
    let leaves = add(&mut builder, "leaf", 2 * shape.leaves_per_pod, Role::Switch);
    let spines = add(&mut builder, "spine", shape.spines, Role::Switch);
    let pods = hosts.chunks(shape.hosts_per_pod);
    for (hosts, leaves) in pods.zip(leaves.chunks(shape.leaves_per_pod)) {
        for host in hosts {
            for rail in 0..shape.rails {
                let leaf = leaves[rail % leaves.len()];
                let spec = NicSpec {
                    rail: Some(rail as u16),
                    ..NicSpec::default()
                };
                let added = builder.add_nic(*host, leaf, rate(0.4), Duration::ZERO, spec);
                added.expect("a new rail");
            }
        }
    }
    join_all(&mut builder, &leaves, &spines);
    builder.build()
}

fn add(builder: &mut FabricBuilder, kind: &str, count: usize, role: Role) -> Vec<NodeId> {
    let names = (0..count).map(|index| format!("{kind}{index}"));
    names
        .map(|name| builder.add_node(&name, role).expect("a new name"))
        .collect()
}

fn join_all(builder: &mut FabricBuilder, below: &[NodeId], above: &[NodeId]) {
    for low in below {
        above
            .iter()
            .for_each(|high| join(builder, [*low, *high], 0.2));
    }
}

fn join(builder: &mut FabricBuilder, ends: [NodeId; 2], gbps: f64) {
    let joined = builder.connect(ends, 1, rate(gbps), Duration::ZERO);
    joined.expect("they were not joined yet");
}

fn rate(gbps: f64) -> Rate {
    Rate::from_gbps(gbps).expect("a rate")
}
