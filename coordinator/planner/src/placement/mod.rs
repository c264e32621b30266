//! Which host takes which place in a job: those that exchange much in one rack, across racks as
//! little as can be, and nobody behind a slow link who need not be there.
//!
//! What is judged is the slowest of all that an iteration brings onto ports of hosts, uplinks of
//! racks and measured pairs; of equals, what crosses racks in all. Few places are tried in all
//! orders; many by exchanging two while that helps, from several starts, as far as the work allows.

mod demand;
mod judge;
mod pairs;
mod search;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;

pub use demand::Demand;
use judge::Judge;
pub use pairs::read_pairs;

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
    /// So many exchanges may be weighed.
    pub work: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// By place: its host.
    pub order: Vec<NodeId>,
    /// What communication takes at least, as it would be otherwise and so.
    pub before_s: f64,
    pub after_s: f64,
    /// Bytes that cross racks.
    pub crossing: [f64; 2],
    /// Whether all orders were weighed.
    pub proven: bool,
    /// The places in one rack, rack by rack: these reduce among themselves first.
    pub groups: Vec<Vec<usize>>,
}

/// The best order that was found. There must be as many hosts as places, or more.
pub fn place(request: &Request<'_>) -> Option<Placed> {
    let places = request.demand.places;
    if request.hosts.len() < places || places == 0 {
        return None;
    }
    let judge = Judge::new(request);
    let present: Vec<_> = (0..request.hosts.len()).collect();
    let (order, proven) = search::best(&judge, request, &present);
    let [before, after] = [&present, &order].map(|order| judge.score(order));
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, &host) in order.iter().take(places).enumerate() {
        groups.entry(judge.rack(host)).or_default().push(place);
    }
    Some(Placed {
        order: order
            .iter()
            .take(places)
            .map(|&host| request.hosts[host])
            .collect(),
        before_s: before.slowest_s,
        after_s: after.slowest_s,
        crossing: [before.crossing, after.crossing],
        proven,
        groups: groups.into_values().collect(),
    })
}
