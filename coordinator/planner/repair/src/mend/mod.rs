//! Finds badly spread flows of a live cluster, and the moves that repair them.
//!
//! A flow on a full hop gets less than it could send. So each flow is first given the rate that its own ends allow;
//! [`rebalance`](crate::rebalance) then finds the fewest moves after which no hop is fuller than necessary. Only those
//! moves are kept by which a flow surely gains and none loses, judged by a second model with max-min fair sharing.

mod beats;
mod best;
mod circuits;
mod collisions;
mod detour;
mod iterations;
mod model;
mod observed;
mod plan;
mod predict;
mod wished;
use std::collections::BTreeMap;

use reweave_common::flow::FlowKey;
use reweave_common::snapshot::Snapshot;

use crate::Policy;
use crate::fim::{self, Counted, Spread};
use crate::paths::Atlas;
use model::Model;
use observed::Observed;

pub use circuits::{Suited, Unsuited, predicted, suited};
pub use collisions::{CollisionRepair, repair};
pub use wished::{Promise, promised};

/// Returns the spread of elephant flows with known paths, per switch. Links that are down belong to no group.
pub fn spread(snapshot: &Snapshot, policy: &Policy) -> Spread {
    let model = Model::new(snapshot, policy);
    let elephants = elephants(&model).into_values();
    fim::spread(&mut atlas(&model.observed), elephants)
}

/// The same, and that of each of these parts of the flows alone.
pub fn spreads(
    snapshot: &Snapshot,
    policy: &Policy,
    parts: &[Vec<FlowKey>],
) -> (Spread, Vec<Spread>) {
    let model = Model::new(snapshot, policy);
    let elephants = elephants(&model);
    let mut atlas = atlas(&model.observed);
    let all = fim::spread(&mut atlas, elephants.values().copied());
    let alone = parts.iter().map(|part| {
        let flows = part.iter().filter_map(|flow| elephants.get(flow).copied());
        fim::spread(&mut atlas, flows)
    });
    (all, alone.collect())
}

fn elephants<'m>(model: &'m Model<'_>) -> BTreeMap<FlowKey, Counted<'m>> {
    let elephants = model.flows.iter().filter(|flow| flow.elephant);
    let counted = elephants.map(|flow| {
        let counted = Counted {
            to: flow.state.into(),
            path: flow.path,
            weight: flow.state.rate.bits_per_s(),
        };
        (flow.state.flow, counted)
    });
    counted.collect()
}

/// Returns the paths that exist now.
fn atlas<'s>(observed: &Observed<'s>) -> Atlas<'s> {
    let links = observed.fabric().links().map(|(link, _)| link);
    Atlas::without(
        observed.fabric(),
        links.filter(|&link| observed.is_closed(link)).collect(),
    )
}

#[cfg(test)]
mod tests {
    mod beats;
    mod circuits;
    mod collisions;
    mod nics;
    mod optimal;
    mod plans;
    mod wished;
}
