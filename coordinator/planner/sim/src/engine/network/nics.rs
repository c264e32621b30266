//! Paths that begin and end at given NICs.

use reweave_common::fabric::{Fabric, Nic};

use super::{LinkIndex, Network, NetworkPath};

impl Network {
    /// Returns a path between the leaves of two NICs with the cable of each NIC at its end.
    pub fn between_nics(
        &self,
        fabric: &Fabric,
        [from, to]: [&Nic; 2],
        leaves: NetworkPath,
    ) -> NetworkPath {
        let out = sent_over(fabric, from);
        let into = sent_over(fabric, to) ^ 1;
        let mut way = NetworkPath {
            links: vec![out],
            delay: leaves.delay,
        };
        way.links.extend(leaves.links);
        way.links.push(into);
        for link in [out, into] {
            way.add_delay(self.latencies[link as usize]);
        }
        way
    }
}

/// Returns the link over which a NIC sends; the one over which it receives differs in the last bit.
fn sent_over(fabric: &Fabric, nic: &Nic) -> LinkIndex {
    let is_second_end = fabric.link(nic.link).a.node != nic.host;
    nic.link.index() as LinkIndex * 2 + LinkIndex::from(is_second_end)
}
