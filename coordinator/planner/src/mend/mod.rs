//! What is wrong with how a live cluster's flows are spread, and what would mend it.
//!
//! What a flow asks for is not what it gets: on a full hop it gets less. So each flow is first given
//! what its own two ends would let it have; [`rebalance`](crate::rebalance) then finds the fewest moves
//! after which no hop carries more than it must. Of these moves only those are made by which somebody
//! surely gains and nobody loses, judged by a second model, in which flows share hops max-min fairly.

mod best;
mod collisions;
mod detour;
mod iterations;
mod model;
mod observed;
mod plan;
mod predict;
use reweave_common::snapshot::Snapshot;

use crate::Policy;
use crate::fim::{self, Counted, Spread};
use crate::paths::Atlas;
use model::Model;
use observed::Observed;

pub use collisions::diagnose;
pub use plan::plan;

/// How evenly the elephants with known paths are spread, switch by switch. Links that are down
/// belong to no group.
pub fn spread(snapshot: &Snapshot, policy: &Policy) -> Spread {
    let model = Model::new(snapshot, policy);
    let elephants = model.flows.iter().filter(|flow| flow.elephant);
    let counted = elephants.map(|flow| Counted {
        to: flow.state.to,
        path: flow.path,
        weight: flow.state.rate.bits_per_s(),
    });
    fim::spread(&mut atlas(&model.observed), counted)
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
    mod collisions;
    mod optimal;
    mod plans;
}
