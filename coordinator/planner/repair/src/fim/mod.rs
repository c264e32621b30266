//! The Flow Imbalance Metric: how unevenly flows are spread over links that are equally good.
//!
//! A *group* is one switch's directed links to the next tier: its equal-cost links for those flows.
//! With f flows on each of the links L and F in all, FIM = 100/|L| * sum of |f - F/|L|| / (F/|L|).

use reweave_common::finding::Imbalance;
use reweave_common::ids::{LinkId, NodeId};

mod spread;

pub use spread::{
    Counted, GroupSpread, Headline, ImbalanceSeries, Layer, LayerSpread, Spread, Worth, by_job,
    of_listed, of_listed_on, over_time, spread,
};

/// Load of one link of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    pub flows: u64,
    /// Rates or bytes of these flows together.
    pub weight: u64,
}

/// One switch's equal-cost links for some destinations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub at: NodeId,
    pub links: Vec<LinkId>,
}

/// The imbalance of one group; none when no flow crosses it.
pub fn imbalance(loads: &[Load]) -> Option<Imbalance> {
    let flows: u64 = loads.iter().map(|load| load.flows).sum();
    let counts: Vec<_> = loads.iter().map(|load| load.flows as f64).collect();
    let weights: Vec<_> = loads.iter().map(|load| load.weight as f64).collect();
    (flows > 0).then(|| Imbalance {
        fim_percent: deviation_percent(&counts),
        floor_percent: floor_percent(flows, loads.len() as u64),
        weighted_percent: deviation_percent(&weights),
        max_over_mean: max_over_mean(&weights),
    })
}

/// Returns the least FIM of this number of flows on this number of links: r links carry one flow more than the others,
/// where r is the remainder of the division.
pub fn floor_percent(flows: u64, links: u64) -> f64 {
    if flows == 0 || links == 0 {
        return 0.0;
    }
    let left = flows % links;
    200.0 * (left * (links - left)) as f64 / (links * flows) as f64
}

/// Returns the mean deviation from the mean, in percent of the mean; 0 without load.
fn deviation_percent(values: &[f64]) -> f64 {
    let mean = mean(values);
    if mean == 0.0 {
        return 0.0;
    }
    let off: f64 = values.iter().map(|value| (value - mean).abs() / mean).sum();
    100.0 * off / values.len() as f64
}

/// Returns 1 if all are equal or there is no load.
fn max_over_mean(values: &[f64]) -> f64 {
    let mean = mean(values);
    let most = values.iter().copied().fold(0.0, f64::max);
    if mean == 0.0 { 1.0 } else { most / mean }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests;
