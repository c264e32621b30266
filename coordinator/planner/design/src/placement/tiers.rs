//! Groups of places that reduce among themselves first, tier by tier: racks, then pods.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::tree::{Group, Members};

/// Returns the tiers from the smallest groups up, without the group of all places. None if the hosts form no tree, or
/// all are in one group.
pub fn tiers(fabric: &Fabric, order: &[NodeId]) -> Vec<Vec<Vec<usize>>> {
    let Ok(top) = Group::of(fabric) else {
        return Vec::new();
    };
    let places: BTreeMap<_, _> = (0..)
        .zip(order)
        .map(|(place, host)| (*host, place))
        .collect();
    let mut tiers: Vec<Vec<Vec<usize>>> = Vec::new();
    let mut level = vec![&top];
    for _ in 0..top.depth() {
        let tier = placed(&level, &places);
        // If no group is split further, its hosts are as close as possible.
        if tier.len() > 1 && tiers.last() != Some(&tier) {
            tiers.push(tier);
        }
        level = level.into_iter().flat_map(below).collect();
    }
    tiers.reverse();
    tiers
}

fn below(group: &Group) -> Vec<&Group> {
    match &group.members {
        Members::Hosts(_) => vec![group],
        Members::Groups(groups) => groups.iter().collect(),
    }
}

/// Groups of which a host is in use, in the order of their first places.
fn placed(level: &[&Group], places: &BTreeMap<NodeId, usize>) -> Vec<Vec<usize>> {
    let of_group = |group: &&Group| {
        let hosts = group.hosts().into_iter();
        let mut used: Vec<_> = hosts.filter_map(|it| places.get(&it).copied()).collect();
        used.sort_unstable();
        used
    };
    let mut tier: Vec<_> = level.iter().map(of_group).collect();
    tier.retain(|places| !places.is_empty());
    tier.sort();
    tier
}
