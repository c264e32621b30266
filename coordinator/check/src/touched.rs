//! Whom a plan touches: which flows may go another way by it, and which share a link with such.

use std::collections::BTreeSet;

use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::Plan;
use reweave_common::resource_set::ResourceSet;

use crate::Network;
use crate::claims::DestinationForwarding;
use crate::columns::TablesByDestination;
use crate::mesh::Open;

/// What is sent, from where to where.
#[derive(Debug, Clone)]
pub struct Sent {
    pub flow: FlowKey,
    pub from: NodeId,
    pub to: NodeId,
    /// Where that is not known, it may go all ways there are.
    pub path: Option<BTreeSet<LinkId>>,
}

/// What may become of a flow while a plan is carried out, and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touch {
    /// Others come to its links, or go.
    Slowed,
    Moved,
}

/// A plan, as far as it can touch a flow. There are thousands of these, and what is asked of the plan alone is asked once.
pub struct Touches<'a> {
    network: &'a Network<'a>,
    claims: &'a ResourceSet,
    /// Flows that it pins otherwise.
    pinned_otherwise: BTreeSet<FlowKey>,
    changes_routes: bool,
    open: Open<'a>,
    tables: TablesByDestination<'a>,
}

impl<'a> Touches<'a> {
    pub fn of(network: &'a Network<'a>, plan: &Plan, claims: &'a ResourceSet) -> Self {
        let pins = [network.pins, plan.pins.as_slice()];
        let [before, after] = pins.map(|pins| pins.iter().collect::<BTreeSet<_>>());
        let differing = before.symmetric_difference(&after);
        Self {
            network,
            claims,
            pinned_otherwise: differing.map(|pin| pin.flow).collect(),
            changes_routes: plan.tables != *network.tables || !claims.opticals.is_empty(),
            open: Open::of(network),
            tables: TablesByDestination::of(network.tables, network.fabric),
        }
    }

    /// None when the plan has nothing to do with it.
    pub fn touch(&self, sent: &Sent) -> Option<Touch> {
        if self.pinned_otherwise.contains(&sent.flow) {
            return Some(Touch::Moved);
        }
        let ends = [
            (sent.flow.source, sent.from),
            (sent.flow.destination, sent.to),
        ];
        let [from, to] = ends.map(|(end, node)| self.network.leads_to(*end.ip(), node));
        let ways = || {
            let ways = DestinationForwarding::new(self.network, &self.open, &self.tables, to);
            ways.passed_from(&[from])
                .into_iter()
                .collect::<BTreeSet<_>>()
        };
        let links = sent.path.clone().unwrap_or_else(ways);
        let claimed = self.network.claimed_with(to);
        let shares = !links.is_disjoint(&self.claims.links);
        let is_foreseen = self.claims.flows.contains(&sent.flow);
        if self.changes_routes && shares && !self.claims.destinations.is_disjoint(&claimed) {
            Some(Touch::Moved)
        } else {
            (shares || is_foreseen).then_some(Touch::Slowed)
        }
    }
}
