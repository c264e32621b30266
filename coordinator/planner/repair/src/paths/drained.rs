//! Links that the tables of switches leave out wherever the network's own routes would use them.

use std::collections::BTreeSet;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::forwarding::ForwardingTable;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;

use super::Atlas;

/// Returns links that are drained in both directions: if a node sends nothing over a link, other nodes have
/// instructions to send nothing over it either.
pub fn drained(fabric: &Fabric, tables: &Tables) -> BTreeSet<LinkId> {
    let mut atlas = Atlas::new(fabric);
    let of_switches = tables
        .values()
        .filter(|table| fabric.node(table.at).role == Role::Switch);
    of_switches
        .flat_map(|table| left_out(&mut atlas, table))
        .collect()
}

fn left_out(atlas: &mut Atlas<'_>, table: &ForwardingTable) -> Vec<LinkId> {
    let fabric = atlas.fabric;
    let hops = table.towards.values().flatten();
    let used: BTreeSet<_> = hops.map(|hop| hop.link).collect();
    let is_to_switch = |link: &&LinkId| {
        let far = fabric.link(**link).far(table.at).node;
        fabric.node(far).role == Role::Switch
    };
    let links = fabric.links_of(table.at).iter().filter(is_to_switch);
    let unused: Vec<_> = links.copied().filter(|link| !used.contains(link)).collect();
    let destinations = destinations(fabric, table);
    let is_left_out = |link: &LinkId| {
        let mut ends = destinations.iter();
        let by_itself = ends.find(|to| is_own(atlas, table, **to, *link));
        let mut destinations = table.towards.keys();
        by_itself.is_none() && destinations.any(|&to| atlas.choices(table.at, to).contains(link))
    };
    unused.into_iter().filter(is_left_out).collect()
}

/// What the network's own routes of the switch lead to. If a table has entries for leaves, these stand for their NICs.
fn destinations(fabric: &Fabric, table: &ForwardingTable) -> BTreeSet<NodeId> {
    let mut keys = table.towards.keys();
    if keys.any(|to| fabric.node(*to).role == Role::Switch) {
        fabric.leaf_destinations()
    } else {
        fabric.endpoints().collect()
    }
}

/// Whether the switch uses a link by the network's own routes, because its table has no entry.
fn is_own(atlas: &mut Atlas<'_>, table: &ForwardingTable, to: NodeId, link: LinkId) -> bool {
    !table.towards.contains_key(&to) && atlas.choices(table.at, to).contains(&link)
}
