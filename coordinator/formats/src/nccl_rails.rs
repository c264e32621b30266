//! Whether NCCL may change the NIC between two hosts, as the rails of a job's hosts have it.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::routes::hops_to;

/// A value of `NCCL_CROSS_NIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrossNic {
    /// A ring or tree uses the same NIC on all hosts.
    Never,
    /// It does so where that is no slower, as NCCL by itself.
    Allowed,
}

impl CrossNic {
    pub(crate) fn value(self) -> u8 {
        match self {
            Self::Never => 0,
            Self::Allowed => 2,
        }
    }
}

/// Rail and plane, and the leaves there.
type Leaves = BTreeMap<(u16, Option<u16>), BTreeSet<NodeId>>;

/// Returns `Never` if each rail connects all hosts by itself: on one leaf, or over switches that no rail of other
/// leaves crosses. None if it makes no difference: one host, no declared NICs, or a single rail.
pub fn cross_nic(fabric: &Fabric, hosts: &[NodeId]) -> Option<CrossNic> {
    if hosts.len() < 2 || !fabric.has_declared_nics() {
        return None;
    }
    let of_hosts: Vec<_> = hosts.iter().map(|&host| leaves(fabric, host)).collect();
    let mut rails = Leaves::new();
    for (&rail, leaves) in of_hosts.iter().flatten() {
        rails.entry(rail).or_default().extend(leaves);
    }
    if rails.len() < 2 {
        return None;
    }
    let is_whole = of_hosts.iter().all(|leaves| leaves.len() == rails.len());
    if is_whole && are_separate(fabric, &rails) {
        Some(CrossNic::Never)
    } else {
        Some(CrossNic::Allowed)
    }
}

fn leaves(fabric: &Fabric, host: NodeId) -> Leaves {
    let mut leaves = Leaves::new();
    for id in fabric.training_nics(host) {
        let nic = fabric.nic(id);
        let of_rail = leaves.entry((nic.rail, nic.plane)).or_default();
        of_rail.extend(fabric.leaf_of(id));
    }
    leaves
}

/// Whether no two rails with different leaves cross a common switch above their leaves.
fn are_separate(fabric: &Fabric, rails: &Leaves) -> bool {
    let mut above: Vec<(&BTreeSet<NodeId>, BTreeSet<NodeId>)> = Vec::new();
    for leaves in rails.values() {
        let Some(crossed) = crossed(fabric, leaves) else {
            return false;
        };
        let meets = above
            .iter()
            .any(|(others, other)| *others != leaves && !other.is_disjoint(&crossed));
        if meets {
            return false;
        }
        above.push((leaves, crossed));
    }
    true
}

/// Returns the switches on shortest paths from the first leaf to the others, without leaves; none without a path.
fn crossed(fabric: &Fabric, leaves: &BTreeSet<NodeId>) -> Option<BTreeSet<NodeId>> {
    let mut crossed = BTreeSet::new();
    let &first = leaves.first()?;
    let from_first = hops_to(fabric, first);
    for &leaf in leaves.iter().skip(1) {
        let to_leaf = hops_to(fabric, leaf);
        let length = to_leaf[first.index()]?;
        let is_on_path = |node: NodeId| {
            let both = from_first[node.index()].zip(to_leaf[node.index()]);
            both.is_some_and(|(there, rest)| there + rest == length)
        };
        let switches = fabric.nodes().filter(|(_, node)| node.role.forwards());
        let on_path = switches.map(|(id, _)| id).filter(|&id| is_on_path(id));
        crossed.extend(on_path.filter(|id| !leaves.contains(id)));
    }
    Some(crossed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(text: &str) -> Fabric {
        Fabric::parse("fabric.toml", text).unwrap()
    }

    fn of(fabric: &Fabric, hosts: &[&str]) -> Option<CrossNic> {
        let hosts: Vec<_> = hosts
            .iter()
            .map(|name| fabric.find(name).unwrap())
            .collect();
        cross_nic(fabric, &hosts)
    }

    /// Two pods of two hosts, four rails.
    fn pods(leaves_per_pod: u32) -> Fabric {
        fabric(&format!(
            "kind = \"rails\"\npods = 2\nhosts_per_pod = 2\nrails = 4\nspines = 2\n\
             leaves_per_pod = {leaves_per_pod}\nhost_gbps = 400\nuplink_gbps = 400"
        ))
    }

    /// Two pods of a host each; each of two rails has a leaf in each pod and a spine of its own.
    const PLANES: &str = r#"
        kind = "graph"
        node = [
          { name = "h0", role = "host" }, { name = "h1", role = "host" },
          { name = "a0", role = "switch" }, { name = "a1", role = "switch" }, { name = "a", role = "switch" },
          { name = "b0", role = "switch" }, { name = "b1", role = "switch" }, { name = "b", role = "switch" },
        ]
        link = [
          { a = "a0", b = "a", gbps = 400 }, { a = "a1", b = "a", gbps = 400 },
          { a = "b0", b = "b", gbps = 400 }, { a = "b1", b = "b", gbps = 400 },
        ]
        nic = [
          { host = "h0", to = "a0", gbps = 400, rail = 0 }, { host = "h0", to = "b0", gbps = 400, rail = 1 },
          { host = "h1", to = "a1", gbps = 400, rail = 0 }, { host = "h1", to = "b1", gbps = 400, rail = 1 },
        ]
    "#;

    #[test]
    fn cross_nic_follows_the_fabric() {
        for leaves_per_pod in [4, 2] {
            let fabric = pods(leaves_per_pod);
            assert_eq!(of(&fabric, &["h0", "h1"]), Some(CrossNic::Never));
            assert_eq!(of(&fabric, &["h0", "h2"]), Some(CrossNic::Allowed));
            let cut = fabric.less(&[fabric.find_link("h1-leaf0-1").unwrap()].into());
            assert_eq!(of(&cut, &["h0", "h1"]), Some(CrossNic::Allowed));
            assert_eq!(of(&cut, &["h2", "h3"]), Some(CrossNic::Never));
            assert_eq!(of(&fabric, &["h0"]), None);
        }
        let planes = fabric(PLANES);
        assert_eq!(of(&planes, &["h0", "h1"]), Some(CrossNic::Never));
        let joined = PLANES.replace(r#"{ a = "b1", b = "b","#, r#"{ a = "b1", b = "a","#);
        let joined = joined.replace(r#"{ a = "b0", b = "b","#, r#"{ a = "b0", b = "a","#);
        assert_eq!(of(&fabric(&joined), &["h0", "h1"]), Some(CrossNic::Allowed));
        let apart = PLANES.replace(r#"{ a = "b1", b = "b", gbps = 400 },"#, "");
        assert_eq!(of(&fabric(&apart), &["h0", "h1"]), Some(CrossNic::Allowed));
        let plain = "kind = \"ideal\"\nhosts = 2\nnic_gbps = 400";
        assert_eq!(of(&fabric(plain), &["h0", "h1"]), None);
    }
}
