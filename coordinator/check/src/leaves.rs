//! Switches as destinations. Where the fabric's file declares NICs, a table's entry for a switch is one for every NIC that
//! hangs on it: packets for all of these go alike until they are there. In other fabrics, such an entry means nothing.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;

use crate::Network;

/// The switch on which all NICs of an endpoint hang, where there is one.
pub(crate) fn only_leaf(fabric: &Fabric, to: NodeId) -> Option<NodeId> {
    let mut leaves = leaves_of(fabric, to);
    let only = leaves.next()??;
    leaves.all(|leaf| leaf == Some(only)).then_some(only)
}

/// One for each NIC of a node. None where a NIC ends at no switch.
fn leaves_of(fabric: &Fabric, node: NodeId) -> impl Iterator<Item = Option<NodeId>> {
    let nics = fabric.nics_of(node).iter();
    let nics = nics.filter(move |_| fabric.has_declared_nics());
    nics.map(move |&nic| fabric.leaf_of(nic))
}

/// Switches that these tables have entries for, and that stand for NICs.
pub(crate) fn leaf_keys(fabric: &Fabric, tables: &Tables) -> BTreeSet<NodeId> {
    let keys = tables.values().flat_map(|table| table.towards.keys());
    keys.copied().filter(|&to| is_leaf(fabric, to)).collect()
}

/// Whether entries for this node are for the NICs that hang on it.
pub(crate) fn is_leaf(fabric: &Fabric, node: NodeId) -> bool {
    let is_there = node.index() < fabric.nodes().len();
    is_there && fabric.has_declared_nics() && fabric.node(node).role == Role::Switch
}

/// All that are destinations of packets: endpoints, and the switches that stand for NICs.
pub(crate) fn destinations(fabric: &Fabric) -> BTreeSet<NodeId> {
    let switches = fabric.nodes().map(|(node, _)| node);
    let leaves = switches.filter(|&node| is_leaf(fabric, node));
    let leaves = leaves.filter(|&leaf| fabric.nics_behind(leaf).next().is_some());
    fabric.endpoints().chain(leaves).collect()
}

impl Network<'_> {
    /// The switch at which this link of a NIC ends.
    pub(crate) fn leaf_at(&self, link: LinkId) -> Option<NodeId> {
        let is_there = link.index() < self.fabric.links().len();
        let ports = is_there.then(|| self.fabric.link(link).ports())?;
        let mut ends = ports.into_iter().map(|port| port.node);
        ends.find(|&end| is_leaf(self.fabric, end))
    }

    /// Towards what packets for this address of a node are led: the switch of the NIC that has it, where that is known.
    pub(crate) fn leads_to(&self, address: Ipv4Addr, node: NodeId) -> NodeId {
        let leaf = self.nic_link(address).and_then(|link| self.leaf_at(link));
        leaf.unwrap_or(node)
    }

    /// What a plan claims that leads packets for this destination elsewhere. Plans of pins to a NIC, of routes to its host
    /// and of routes to its leaf claim the same: the leaf.
    pub(crate) fn claimed_with(&self, to: NodeId) -> BTreeSet<NodeId> {
        let is_there = to.index() < self.fabric.nodes().len();
        let nodes = is_there.then_some(to).into_iter();
        let leaves: BTreeSet<_> = nodes
            .flat_map(|to| leaves_of(self.fabric, to))
            .map(|leaf| leaf.unwrap_or(to))
            .collect();
        if leaves.is_empty() {
            BTreeSet::from([to])
        } else {
            leaves
        }
    }
}
