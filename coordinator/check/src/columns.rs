//! Tables by destination. They are kept by node, and judged one destination after the other: to look every node up
//! again for each of them took most of the time, of as many entries as a plan may have.

use reweave_common::fabric::Fabric;
use reweave_common::forwarding::NextHop;
use reweave_common::ids::NodeId;
use reweave_common::migration_plan::Tables;

use crate::leaves;

/// What nodes say of one destination, in the order of their numbers.
type Column<'a> = Vec<(NodeId, &'a [NextHop])>;

pub(crate) struct TablesByDestination<'a> {
    /// By node: whether it has a table, of any content.
    has_table: Vec<bool>,
    /// By destination.
    towards: Vec<Column<'a>>,
    fabric: &'a Fabric,
}

impl<'a> TablesByDestination<'a> {
    /// Of the nodes of this fabric. What is said of others leads nowhere.
    pub(crate) fn of(tables: &'a Tables, fabric: &'a Fabric) -> Self {
        let nodes = fabric.nodes().len();
        let mut columns = Self {
            has_table: vec![false; nodes],
            towards: vec![Vec::new(); nodes],
            fabric,
        };
        for (&at, table) in tables {
            if let Some(has_table) = columns.has_table.get_mut(at.index()) {
                *has_table = true;
            }
            for (to, hops) in &table.towards {
                if let Some(column) = columns.towards.get_mut(to.index()) {
                    column.push((at, hops.as_slice()));
                }
            }
        }
        columns
    }

    pub(crate) fn has_table(&self, node: NodeId) -> bool {
        self.has_table[node.index()]
    }

    /// Nothing where the table says nothing of it. An entry for a switch is one for each host whose NICs all hang there,
    /// unless the host has an entry of its own.
    pub(crate) fn entry(&self, to: NodeId, at: NodeId) -> Option<&'a [NextHop]> {
        let of_leaf = || self.own_entry(leaves::only_leaf(self.fabric, to)?, at);
        self.own_entry(to, at).or_else(of_leaf)
    }

    /// The same of a host's NIC that hangs on this switch.
    pub(crate) fn nic_entry(
        &self,
        to: NodeId,
        leaf: Option<NodeId>,
        at: NodeId,
    ) -> Option<&'a [NextHop]> {
        let of_leaf = || self.own_entry(leaf?, at);
        self.entry(to, at).or_else(of_leaf)
    }

    fn own_entry(&self, to: NodeId, at: NodeId) -> Option<&'a [NextHop]> {
        let column = self.towards.get(to.index())?;
        let place = column.binary_search_by_key(&at, |(node, _)| *node).ok()?;
        Some(column[place].1)
    }
}
