//! Routes in force that end at a link that is down beyond their next hop. A switch follows a route as long as the link
//! to its next hop is up, and loses the packets.

use std::collections::BTreeSet;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::forwarding::ForwardingTable;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;
use reweave_common::routes::Routes;

use crate::log::state::InForce;
use crate::model::world::World;

/// The links between switches at which a route in force ends. If the link to the next hop itself is down, the switch
/// leaves it out by itself.
pub(crate) fn severing(world: &World<'_>, in_force: &InForce) -> BTreeSet<LinkId> {
    let fabric = world.fabric();
    let is_switch = |at: NodeId| fabric.node(at).role == Role::Switch;
    let tables = in_force.tables.values().filter(|it| is_switch(it.at));
    let tables: Vec<_> = tables.collect();
    let mut down = world.down();
    down.retain(|&link| fabric.is_between_switches(link));
    if tables.is_empty() || down.is_empty() {
        return BTreeSet::new();
    }
    let keys = tables.iter().flat_map(|table| table.towards.keys());
    let leads_to: BTreeSet<_> = keys.copied().collect();
    let dark = fabric.dark(&in_force.circuits_of(fabric));
    let own = Routes::to_each(fabric, &dark, leads_to.iter().copied());
    let mut severing = BTreeSet::new();
    for to in leads_to {
        let mut onward = Onward {
            fabric,
            tables: &in_force.tables,
            own: &own,
            down: &down,
            to,
            leads: vec![None; fabric.nodes().len()],
            ends: BTreeSet::new(),
        };
        if tables.iter().any(|table| onward.is_severed(table)) {
            severing.append(&mut onward.ends);
        }
    }
    severing
}

/// The paths to one host or leaf, by tables, otherwise by the network's own routes as they were before links failed.
struct Onward<'a> {
    fabric: &'a Fabric,
    tables: &'a Tables,
    own: &'a Routes,
    down: &'a BTreeSet<LinkId>,
    to: NodeId,
    /// By node, whether some path leads on, if known.
    leads: Vec<Option<bool>>,
    /// Links that are down and end all paths of some node.
    ends: BTreeSet<LinkId>,
}

impl Onward<'_> {
    fn is_severed(&mut self, table: &ForwardingTable) -> bool {
        let (fabric, down) = (self.fabric, self.down);
        let hops = table.next_hops(self.to).iter().map(|hop| hop.link);
        let mut next = hops
            .filter(|link| !down.contains(link))
            .map(|link| fabric.link(link).far(table.at).node);
        next.any(|node| !self.leads_on(node))
    }

    fn leads_on(&mut self, at: NodeId) -> bool {
        if at == self.to {
            return true;
        }
        if let Some(leads) = self.leads[at.index()] {
            return leads;
        }
        // A loop does not end at a link.
        self.leads[at.index()] = Some(true);
        let hops = self.hops(at);
        let (fabric, down) = (self.fabric, self.down);
        let mut up = hops.iter().filter(|link| !down.contains(*link));
        let leads =
            hops.is_empty() || up.any(|link| self.leads_on(fabric.link(*link).far(at).node));
        if !leads {
            self.ends
                .extend(hops.iter().filter(|link| down.contains(*link)));
        }
        self.leads[at.index()] = Some(leads);
        leads
    }

    fn hops(&self, at: NodeId) -> Vec<LinkId> {
        let table = self.tables.get(&at).map(|it| it.next_hops(self.to));
        match table {
            Some(hops) if !hops.is_empty() => hops.iter().map(|hop| hop.link).collect(),
            _ => self.own.next_hops(at, self.to).to_vec(),
        }
    }
}
