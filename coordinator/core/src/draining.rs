//! Links that a person wants to carry nothing: the plan by which switches send around them.
//!
//! Whoever may send over such a link gets routes of its own, towards those hosts alone that it reaches
//! over others as directly. A switch that has no such way is sent nothing for these hosts any more.

use std::collections::BTreeSet;

use reweave_common::course::Tables;
use reweave_common::fabric::{Fabric, Role};
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::Plan;
use reweave_common::routes::Routes;

use crate::model::Picture;
use crate::state::State;

/// Hosts at this switch would reach that one by a longer way, or by none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CutOff {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
}

/// It promises nothing: whoever wants it knows what for.
pub(crate) fn plan(
    picture: &Picture<'_>,
    state: &State,
    drained: &BTreeSet<LinkId>,
) -> Result<Plan, CutOff> {
    let (fabric, in_force) = (picture.fabric(), state.in_force());
    let others = in_force.tables.iter();
    let others = others.filter(|(node, _)| fabric.node(**node).role != Role::Switch);
    let mut tables: Tables = others.map(|(node, it)| (*node, it.clone())).collect();
    tables.extend(around(fabric, &picture.down(), drained)?);
    Ok(Plan {
        pins: in_force.pins.clone(),
        tables,
        circuits: in_force.circuits.clone(),
        ..Plan::empty(state.next_generation(), in_force.generation)
    })
}

/// What switches hold so that nothing goes over these links, and everything else as it went.
fn around(
    fabric: &Fabric,
    down: &BTreeSet<LinkId>,
    drained: &BTreeSet<LinkId>,
) -> Result<Tables, CutOff> {
    if drained.is_empty() {
        return Ok(Tables::new());
    }
    let closed = down.union(drained).copied().collect();
    let ways = Ways {
        fabric,
        own: Routes::around(fabric, down),
        around: Routes::around(fabric, &closed),
    };
    let switches = fabric.nodes().filter(|(_, node)| node.role == Role::Switch);
    let tables = switches.map(|(at, _)| ways.table(at));
    let tables: Vec<_> = tables.collect::<Result<_, _>>()?;
    let needed = tables.into_iter().filter(|table| !table.towards.is_empty());
    Ok(needed.map(|table| (table.at, table)).collect())
}

struct Ways<'f> {
    fabric: &'f Fabric,
    own: Routes,
    around: Routes,
}

impl Ways<'_> {
    fn table(&self, at: NodeId) -> Result<ForwardingTable, CutOff> {
        let mut table = ForwardingTable {
            at,
            towards: Default::default(),
            raises: Vec::new(),
        };
        for to in self.fabric.endpoints() {
            if let Some(hops) = self.other_hops(at, to)? {
                table.towards.insert(to, hops);
            }
        }
        Ok(table)
    }

    /// Nothing where all stays as it is, or where nobody sends it any more.
    fn other_hops(&self, at: NodeId, to: NodeId) -> Result<Option<Vec<NextHop>>, CutOff> {
        let links = self.around.next_hops(at, to);
        let is_as_short = self.around.hops(at, to) == self.own.hops(at, to);
        if !is_as_short && self.has_hosts(at) {
            return Err(CutOff { from: at, to });
        }
        let differs = links != self.own.next_hops(at, to);
        let hop = |&link: &LinkId| NextHop { link, weight: 1 };
        Ok((is_as_short && differs).then(|| links.iter().map(hop).collect()))
    }

    fn has_hosts(&self, at: NodeId) -> bool {
        let mut links = self.fabric.links_of(at).iter();
        let far = |link: &LinkId| self.fabric.link(*link).far(at).node;
        links.any(|link| self.fabric.node(far(link)).role.is_endpoint())
    }
}
