//! Whom a plan touches: which flows may go another way by it, and which share a link with such.

use std::collections::BTreeSet;

use reweave_common::claims::Claims;
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::{Pin, Plan};

use crate::Network;
use crate::claims::Ways;
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

/// None when the plan has nothing to do with it.
pub fn touch(
    network: &Network<'_>,
    (plan, claims): (&Plan, &Claims),
    sent: &Sent,
) -> Option<Touch> {
    if is_pinned_otherwise(network.pins, &plan.pins, sent.flow) {
        return Some(Touch::Moved);
    }
    let ways = || {
        let open = Open::of(network);
        Ways::new((network, &open), network.tables, sent.to).passed_from(&[sent.from])
    };
    let links = sent.path.clone().unwrap_or_else(ways);
    let shares = !links.is_disjoint(&claims.links);
    let is_foreseen = claims.flows.contains(&sent.flow);
    let changes_routes = plan.tables != *network.tables || !claims.opticals.is_empty();
    match changes_routes && shares && claims.destinations.contains(&sent.to) {
        true => Some(Touch::Moved),
        false => (shares || is_foreseen).then_some(Touch::Slowed),
    }
}

fn is_pinned_otherwise(before: &[Pin], after: &[Pin], flow: FlowKey) -> bool {
    let of_flow = |pins: &[Pin]| -> BTreeSet<Pin> {
        let of_it = pins.iter().filter(|pin| pin.flow == flow);
        of_it.copied().collect()
    };
    of_flow(before) != of_flow(after)
}
