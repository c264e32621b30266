//! The NICs over which two hosts exchange the traffic of jobs: those of one rail.

use std::collections::BTreeSet;

use super::{Fabric, NicUse};
use crate::ids::{NicId, NodeId};

impl Fabric {
    /// Returns the NICs of a host that carry the traffic of jobs, in order of rail: those for training, at a switch.
    pub fn training_nics(&self, host: NodeId) -> Vec<NicId> {
        let is_training =
            |&id: &NicId| self.nic(id).purpose == NicUse::Training && self.leaf_of(id).is_some();
        let nics = self.nics_of(host).iter().copied();
        nics.filter(is_training).collect()
    }

    /// Returns the pairs of NICs over which two hosts exchange the traffic of jobs, each pair as much as another: the
    /// training NICs of one rail. Empty if packets may leave and arrive over any link: the file declares no NICs, or
    /// one of the two has no training NIC.
    pub fn rail_pairs(&self, from: NodeId, to: NodeId) -> Vec<[NicId; 2]> {
        if !self.has_declared_nics() {
            return Vec::new();
        }
        let [from, to] = [from, to].map(|host| self.training_nics(host));
        self.pair_nics(&from, &to)
    }

    /// Returns the pairs of NICs that are on one rail, in one plane. If there are none, the traffic has to change its
    /// rail: each NIC is paired with each.
    pub fn pair_nics(&self, from: &[NicId], to: &[NicId]) -> Vec<[NicId; 2]> {
        let mut pairs = Vec::with_capacity(from.len());
        for &from in from {
            pairs.extend(to.iter().map(|&to| [from, to]));
        }
        let of_one_rail = |pair: &&[NicId; 2]| {
            let [from, to] = pair.map(|id| (self.nic(id).rail, self.nic(id).plane));
            from == to
        };
        let same: Vec<_> = pairs.iter().filter(of_one_rail).copied().collect();
        if same.is_empty() { pairs } else { same }
    }

    /// Returns the number of rails of which both hosts have a training NIC, declared or implied.
    pub fn common_rails(&self, a: NodeId, b: NodeId) -> usize {
        let [a, b] = [a, b].map(|host| {
            let nics = self.training_nics(host).into_iter();
            nics.map(|id| self.nic(id).rail).collect::<BTreeSet<_>>()
        });
        a.intersection(&b).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// h2 has no NIC of rail 0, and h3 none for training.
    const HOSTS: &str = r#"
        kind = "graph"
        node = [
          { name = "h0", role = "host" }, { name = "h1", role = "host" }, { name = "h2", role = "host" },
          { name = "h3", role = "host" }, { name = "leaf0", role = "switch" }, { name = "leaf1", role = "switch" },
        ]
        link = [{ a = "leaf0", b = "leaf1", gbps = 400 }]
        nic = [
          { host = "h0", to = "leaf0", gbps = 400, rail = 0 }, { host = "h0", to = "leaf1", gbps = 400, rail = 1 },
          { host = "h0", to = "leaf0", gbps = 100, use = "storage" },
          { host = "h1", to = "leaf1", gbps = 400, rail = 1 }, { host = "h1", to = "leaf0", gbps = 400, rail = 0 },
          { host = "h1", to = "leaf0", gbps = 100, use = "storage" },
          { host = "h2", to = "leaf1", gbps = 400, rail = 1 },
          { host = "h3", to = "leaf0", gbps = 100, use = "storage" },
        ]
    "#;

    #[test]
    fn traffic_keeps_its_rail() {
        let fabric = Fabric::parse("f.toml", HOSTS).unwrap();
        let host = |name: &str| fabric.find(name).unwrap();
        let pairs = |from: &str, to: &str| {
            let pairs = fabric.rail_pairs(host(from), host(to)).into_iter();
            let names = pairs.map(|pair| pair.map(|id| fabric.link_name(fabric.nic(id).link)));
            names.collect::<Vec<_>>()
        };
        let named = |pairs: &[[&str; 2]]| {
            let names = pairs.iter().map(|pair| pair.map(str::to_owned));
            names.collect::<Vec<_>>()
        };
        assert_eq!(
            pairs("h0", "h1"),
            named(&[["h0-leaf0", "h1-leaf0"], ["h0-leaf1", "h1-leaf1"]])
        );
        assert_eq!(pairs("h2", "h0"), named(&[["h2-leaf1", "h0-leaf1"]]));
        assert_eq!(pairs("h0", "h3"), named(&[]));
        let [h0, h1, h2, h3] = ["h0", "h1", "h2", "h3"].map(host);
        assert_eq!(
            [h1, h2, h3].map(|to| fabric.common_rails(h0, to)),
            [2, 1, 0]
        );
        let first = |host| fabric.training_nics(host)[..1].to_vec();
        let crossing = fabric.pair_nics(&first(h0), &first(h2));
        assert_eq!(crossing, [[first(h0)[0], first(h2)[0]]]);
    }

    #[test]
    fn implied_nics_make_no_pairs() {
        let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 1\nhost_gbps = 1\n\
                    uplink_gbps = 1";
        let fabric = Fabric::parse("f.toml", text).unwrap();
        let [h0, h1] = ["h0", "h1"].map(|name| fabric.find(name).unwrap());
        assert!(fabric.rail_pairs(h0, h1).is_empty());
        assert_eq!(fabric.common_rails(h0, h1), 1);
    }
}
