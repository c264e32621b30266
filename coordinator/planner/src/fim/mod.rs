//! The Flow Imbalance Metric: how unevenly flows are spread over links that are equally good.
//!
//! A *group* is one switch's directed links to the next tier: its equal-cost links for those flows.
//! With f flows on each of the links L and F in all, FIM = 100/|L| * sum of |f - F/|L|| / (F/|L|).

use std::collections::BTreeMap;

use reweave_common::finding::Imbalance;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::{Hop, Snapshot};

use crate::Policy;
use crate::model::{Flow, Model};

mod spread;

pub use spread::{
    Counted, Course, GroupSpread, Headline, Layer, LayerSpread, Spread, by_job, of_listed,
    over_time, spread,
};

/// What one link of a group carries.
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

/// All groups that carry elephants, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imbalances {
    pub groups: Vec<(Group, Imbalance)>,
}

impl Imbalances {
    /// The headline: the group with the largest FIM, the first of several.
    pub fn worst(&self) -> Option<&(Group, Imbalance)> {
        let fim = |(_, imbalance): &(_, Imbalance)| imbalance.fim_percent;
        let worse = |worst, next| if fim(next) > fim(worst) { next } else { worst };
        self.groups.iter().reduce(worse)
    }

    pub fn mean_fim_percent(&self) -> Option<f64> {
        let fims = self
            .groups
            .iter()
            .map(|(_, imbalance)| imbalance.fim_percent);
        let sum: f64 = fims.sum();
        (!self.groups.is_empty()).then(|| sum / self.groups.len() as f64)
    }
}

/// How evenly the elephants with known paths are spread, switch by switch. Links that are down
/// belong to no group.
pub fn imbalances(snapshot: &Snapshot, policy: &Policy) -> Imbalances {
    let model = Model::new(snapshot, policy);
    let mut groups: BTreeMap<Group, BTreeMap<LinkId, Load>> = BTreeMap::new();
    for flow in model.flows.iter().filter(|flow| flow.elephant) {
        for &hop in &flow.present().hops {
            if let Some(group) = group_of(&model, flow, hop) {
                let loads = groups.entry(group).or_default();
                loads.entry(hop.link).or_default().add(flow);
            }
        }
    }
    let rated = |(group, loads): (Group, BTreeMap<_, Load>)| {
        let load = |link| loads.get(link).copied().unwrap_or_default();
        let loads: Vec<_> = group.links.iter().map(load).collect();
        Some((group, imbalance(&loads)?))
    };
    Imbalances {
        groups: groups.into_iter().filter_map(rated).collect(),
    }
}

/// How evenly the elephants are spread over some hops that could stand for one another.
pub(crate) fn imbalance_over(model: &Model<'_>, hops: &[Hop]) -> Option<Imbalance> {
    let mut loads = vec![Load::default(); hops.len()];
    for flow in model.flows.iter().filter(|flow| flow.elephant) {
        for (load, hop) in loads.iter_mut().zip(hops) {
            if flow.crosses(*hop) {
                load.add(flow);
            }
        }
    }
    imbalance(&loads)
}

impl Load {
    fn add(&mut self, flow: &Flow<'_>) {
        self.flows += 1;
        self.weight += flow.state.rate.bits_per_s();
    }
}

/// The group out of which `hop` was chosen for `flow`, if there was a choice.
fn group_of(model: &Model<'_>, flow: &Flow<'_>, hop: Hop) -> Option<Group> {
    let links = model.choices(hop.from, flow.state.to);
    let chosen = links.len() > 1 && links.contains(&hop.link);
    chosen.then_some(Group {
        at: hop.from,
        links,
    })
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

/// The least FIM that so many flows can have over so many links: r links carry one flow more than
/// the others, where r is what is left of an even split.
pub fn floor_percent(flows: u64, links: u64) -> f64 {
    if flows == 0 || links == 0 {
        return 0.0;
    }
    let left = flows % links;
    200.0 * (left * (links - left)) as f64 / (links * flows) as f64
}

/// The mean distance from the mean, as a percentage of the mean; 0 when there is nothing at all.
fn deviation_percent(values: &[f64]) -> f64 {
    let mean = mean(values);
    if mean == 0.0 {
        return 0.0;
    }
    let off: f64 = values.iter().map(|value| (value - mean).abs() / mean).sum();
    100.0 * off / values.len() as f64
}

/// 1 when all are equal, or there is nothing at all.
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
