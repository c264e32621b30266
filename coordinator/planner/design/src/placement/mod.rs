//! Assigns hosts to places of a job: places with much traffic between them get close hosts, narrow links get little
//! traffic, and slow links are avoided.
//!
//! On rails, a pair of hosts sends as much over each rail that both have, from leaf to leaf.
//!
//! An order is judged by its slowest host port, link or measured pair, and then by the total time of all links. Few
//! places are tried in all orders. Many are improved by exchanging two hosts, from several starts, within the work
//! limit.

mod demand;
mod judge;
mod pairs;
mod ports;
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
pub use pairs::{over_all, read_pairs};
pub use tiers::tiers;

/// Measured rates between hosts, in bits per second; pairs that are not here were not measured.
pub type Pairs = BTreeMap<(NodeId, NodeId), f64>;

/// Job and hosts to place.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub fabric: &'a Fabric,
    pub demand: &'a Demand,
    /// The hosts that may be used, in the order they would be used in otherwise.
    pub hosts: &'a [NodeId],
    pub pairs: &'a Pairs,
    pub seed: u64,
    /// Maximum number of exchanges that are tried.
    pub work: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// Host of each place.
    pub order: Vec<NodeId>,
    /// Lower bound of the communication time, before and with this order.
    pub before_s: f64,
    pub after_s: f64,
    /// Bytes between hosts at different switches, before and with this order.
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
