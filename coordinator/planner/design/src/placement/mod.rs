//! Which host takes which place in a job: those that exchange much close to each other, over narrow links as little as
//! can be, and no rank behind a slow link that need not be there.
//!
//! What is judged is the slowest of all that an iteration brings onto ports of hosts, links and measured
//! pairs; of equals, the time of all links together. Few places are tried in all orders; many by
//! exchanging two while that helps, from several starts, as far as the work allows.

mod demand;
mod judge;
mod pairs;
mod search;
mod spots;
#[cfg(test)]
mod tests;
mod tiers;

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;

pub use demand::Demand;
use judge::Judge;
pub use pairs::read_pairs;
pub use tiers::tiers;

/// Measured rates between hosts, in bits per second; pairs that are not here were not measured.
pub type Pairs = BTreeMap<(NodeId, NodeId), f64>;

/// What to place, and where.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub fabric: &'a Fabric,
    pub demand: &'a Demand,
    /// The hosts that may be used, in the order they would be used in otherwise.
    pub hosts: &'a [NodeId],
    pub pairs: &'a Pairs,
    pub seed: u64,
    /// This many exchanges may be weighed.
    pub work: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// By place: its host.
    pub order: Vec<NodeId>,
    /// What communication takes at least, as it would be otherwise and so.
    pub before_s: f64,
    pub after_s: f64,
    /// Bytes between hosts that do not hang on the same switches.
    pub crossing: [f64; 2],
    /// Whether all orders were judged.
    pub proven: bool,
    /// The places on the same switches: these reduce among themselves first.
    pub groups: Vec<Vec<usize>>,
}

/// The best order that was found. There must be as many hosts as places, or more.
pub fn place(request: &Request<'_>) -> Option<Placed> {
    has_room(request).then(|| {
        let judge = Judge::new(request);
        let (order, proven) = search::best(&judge, request, &present(request));
        placed(&judge, request, &order, proven)
    })
}

/// Hosts in the order that is given.
pub fn left_alone(request: &Request<'_>) -> Option<Placed> {
    has_room(request).then(|| placed(&Judge::new(request), request, &present(request), false))
}

fn has_room(request: &Request<'_>) -> bool {
    (1..=request.hosts.len()).contains(&request.demand.places)
}

fn present(request: &Request<'_>) -> Vec<usize> {
    (0..request.hosts.len()).collect()
}

fn placed(judge: &Judge, request: &Request<'_>, order: &[usize], proven: bool) -> Placed {
    let present = present(request);
    let both = [&present[..], order];
    let used = &order[..request.demand.places];
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, &host) in used.iter().enumerate() {
        groups.entry(judge.spot(host)).or_default().push(place);
    }
    let [before_s, after_s] = both.map(|order| judge.score(order).slowest_s);
    Placed {
        order: used.iter().map(|&host| request.hosts[host]).collect(),
        before_s,
        after_s,
        crossing: both.map(|order| judge.crossing(order)),
        proven,
        groups: groups.into_values().collect(),
    }
}
