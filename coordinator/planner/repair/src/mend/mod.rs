//! What is wrong with how a live cluster's flows are spread, and what would repair it.
//!
//! What a flow asks for is not what it gets: on a full hop it gets less. So each flow is first given what its own two
//! ends would let it have; [`rebalance`](crate::rebalance) then finds the fewest moves after which no hop carries more
//! than it must. Of these moves only those are made by which a flow surely gains and none loses, judged by a second
//! model, in which flows share hops max-min fairly.

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

/// How evenly the elephants with known paths are spread, switch by switch. Links that are down
/// belong to no group.
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
            to: flow.state.to,
            path: flow.path,
            weight: flow.state.rate.bits_per_s(),
        };
        (flow.state.flow, counted)
    });
    counted.collect()
}

/// The ways that there are now.
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
    mod optimal;
    mod plans;
    mod wished;
}
