//! Ports of the hosts of a spot, and what a byte to another spot costs on them.
//!
//! Without rails, hashing gives each port as much. On rails, a pair of hosts gives as much to each rail that both have.
//! Ports with equal shares of all traffic are merged into one, at the lowest of their rates: all wait for the slowest.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NicId, NodeId};

use super::spots::{SHARE_RESOLUTION, rate};

pub(super) enum HostPorts {
    /// Together, in bytes per second: all traffic is spread alike.
    Even(f64),
    /// Time per byte on each port, by the spot of the other host.
    ByRail(Vec<Vec<f64>>),
}

impl HostPorts {
    /// Returns the time of the slowest port for these bytes, each with the spot of the other host.
    pub(super) fn slowest_s(&self, exchanged: impl Iterator<Item = (usize, f64)> + Clone) -> f64 {
        match self {
            Self::Even(rate) => exchanged.map(|(_, bytes)| bytes).sum::<f64>() / rate,
            Self::ByRail(ports) => {
                let time = |s_per_byte: &Vec<f64>| {
                    let times = exchanged.clone();
                    times
                        .map(|(spot, bytes)| bytes * s_per_byte[spot])
                        .sum::<f64>()
                };
                ports.iter().map(time).fold(0.0, f64::max)
            }
        }
    }
}

/// Returns the NICs over which a host exchanges the traffic of jobs. None if it sends over any of its links.
pub(super) fn railed(fabric: &Fabric, host: NodeId) -> Vec<NicId> {
    if fabric.has_declared_nics() {
        fabric.training_nics(host)
    } else {
        Vec::new()
    }
}

/// Returns the ports of the first host of each spot: all hosts of a spot are alike. The spots whose first hosts are
/// `judged` distinguish rails; if there are too many, no rail is distinguished.
pub(super) fn of_spots(fabric: &Fabric, first: &[NodeId], judged: &[NodeId]) -> Vec<HostPorts> {
    let of_spot = |&host: &NodeId| {
        let nics = railed(fabric, host);
        if nics.is_empty() {
            return even(fabric, fabric.links_of(host).iter().copied());
        }
        by_rail(fabric, host, &nics, judged)
    };
    first.iter().map(of_spot).collect()
}

fn by_rail(fabric: &Fabric, host: NodeId, nics: &[NicId], judged: &[NodeId]) -> HostPorts {
    let pairs = judged.iter().map(|&other| fabric.rail_pairs(host, other));
    let pairs: Vec<_> = pairs.collect();
    let shares = |nic: NicId| pairs.iter().map(move |pairs| share(nic, pairs, nics.len()));
    let mut classes: BTreeMap<Vec<u64>, Vec<NicId>> = BTreeMap::new();
    for &nic in nics {
        let rounded = shares(nic).map(|share| (share / SHARE_RESOLUTION).round() as u64);
        classes.entry(rounded.collect()).or_default().push(nic);
    }
    let links =
        |nics: &[NicId]| -> Vec<_> { nics.iter().map(|&nic| fabric.nic(nic).link).collect() };
    if classes.len() == 1 {
        return even(fabric, links(nics).into_iter());
    }
    let ports = classes.values().map(|class| {
        let slowest = slowest(fabric, links(class).into_iter());
        shares(class[0]).map(|share| share / slowest).collect()
    });
    HostPorts::ByRail(ports.collect())
}

/// Returns the share of the traffic of two hosts that is sent over this NIC of one of them.
fn share(nic: NicId, pairs: &[[NicId; 2]], nics: usize) -> f64 {
    if pairs.is_empty() {
        return 1.0 / nics as f64;
    }
    let over_it = pairs.iter().filter(|[own, _]| *own == nic);
    over_it.count() as f64 / pairs.len() as f64
}

fn even(fabric: &Fabric, links: impl ExactSizeIterator<Item = LinkId>) -> HostPorts {
    let count = links.len() as f64;
    HostPorts::Even(slowest(fabric, links) * count)
}

fn slowest(fabric: &Fabric, links: impl Iterator<Item = LinkId>) -> f64 {
    let rates = links.map(|link| rate(fabric, link));
    rates.reduce(f64::min).unwrap_or(0.0)
}
