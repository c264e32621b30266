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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::scene::{Dice, Scene, seeded};

    fn even(flows: &[u64]) -> Vec<Load> {
        flows
            .iter()
            .map(|&flows| Load {
                flows,
                weight: 7 * flows,
            })
            .collect()
    }

    fn near(value: f64, expected: f64, tolerance: f64) -> bool {
        (value - expected).abs() <= tolerance
    }

    /// Mean FIM and mean max/mean of `flows` flows hashed onto `links` links.
    fn of_hashing(flows: u64, links: usize) -> (f64, f64) {
        let (mut dice, tries) = (Dice::new(flows), 20_000);
        let (mut fim, mut peak) = (0.0, 0.0);
        for _ in 0..tries {
            let mut counts = vec![0; links];
            (0..flows).for_each(|_| counts[dice.below(links)] += 1);
            let found = imbalance(&even(&counts)).unwrap();
            fim += found.fim_percent / f64::from(tries);
            peak += found.max_over_mean / f64::from(tries);
        }
        (fim, peak)
    }

    #[test]
    fn random_hashing_has_the_expected_imbalance() {
        let on_four = [46.7, 33.8, 24.2, 17.2, 12.2, 8.6];
        let on_eight = [68.7, 50.6, 36.5, 26.1, 18.6, 13.2];
        for (links, expected) in [(4, on_four), (8, on_eight)] {
            for (flows, expected) in [8, 16, 32, 64, 128, 256].into_iter().zip(expected) {
                let (fim, _) = of_hashing(flows, links);
                assert!(
                    near(fim, expected, 0.3),
                    "{flows} on {links}: {fim}, not {expected}"
                );
            }
        }
        assert!(near(of_hashing(16, 4).1, 1.54, 0.01));
        assert!(near(of_hashing(16, 8).1, 2.09, 0.01));
    }

    #[test]
    fn a_collision_in_figures() {
        let found = imbalance(&even(&[2, 0])).unwrap();
        let all_on_one = Imbalance {
            fim_percent: 100.0,
            floor_percent: 0.0,
            weighted_percent: 100.0,
            max_over_mean: 2.0,
        };
        assert_eq!(found, all_on_one);
        assert_eq!(imbalance(&even(&[0, 0])), None);
    }

    #[test]
    fn weights_tell_what_counts_hide() {
        let loads = [
            Load {
                flows: 1,
                weight: 30,
            },
            Load {
                flows: 1,
                weight: 10,
            },
        ];
        let found = imbalance(&loads).unwrap();
        assert_eq!((found.fim_percent, found.weighted_percent), (0.0, 50.0));
        assert_eq!(found.max_over_mean, 1.5);
        let idle = imbalance(&[
            Load {
                flows: 2,
                weight: 0,
            },
            Load::default(),
        ])
        .unwrap();
        assert_eq!((idle.weighted_percent, idle.max_over_mean), (0.0, 1.0));
    }

    #[test]
    fn each_switch_with_a_choice_is_a_group() {
        let mut scene = Scene::leaf_spine(2, 2, 3, 100, 100);
        for (from, to) in [("h0", "h3"), ("h1", "h4")] {
            scene.flow(from, to, &["leaf0", "spine0", "leaf1"]);
        }
        for (from, to, spine) in [("h3", "h0", "spine0"), ("h4", "h1", "spine1")] {
            scene.flow(from, to, &["leaf1", spine, "leaf0"]);
        }
        let snapshot = scene.snapshot();
        let found = imbalances(&snapshot, &Policy::default());
        let of: Vec<_> = found
            .groups
            .iter()
            .map(|(group, imbalance)| (snapshot.fabric.name(group.at), imbalance.fim_percent))
            .collect();
        assert_eq!(of, [("leaf0", 100.0), ("leaf1", 0.0)]);
        assert_eq!(found.worst().unwrap().1.fim_percent, 100.0);
        assert_eq!(found.mean_fim_percent(), Some(50.0));
        assert_eq!(Imbalances::default().mean_fim_percent(), None);
    }

    #[test]
    fn a_link_that_is_down_belongs_to_no_group() {
        let mut scene = Scene::leaf_spine(2, 3, 2, 100, 100);
        scene.flow("h0", "h2", &["leaf0", "spine0", "leaf1"]);
        scene.flow("h1", "h3", &["leaf0", "spine1", "leaf1"]);
        scene.down("leaf0", "spine2");
        let found = imbalances(&scene.snapshot(), &Policy::default());
        assert_eq!(found.worst().unwrap().1.fim_percent, 0.0);
        assert_eq!(found.worst().unwrap().0.links.len(), 2);
    }

    proptest! {
        #![proptest_config(seeded(500))]

        #[test]
        fn no_spread_is_below_the_floor_and_the_most_even_one_is_at_it(
            counts in prop::collection::vec(0..20u64, 1..9)
        ) {
            let links = counts.len() as u64;
            let flows: u64 = counts.iter().sum();
            let evenest: Vec<_> = (0..links).map(|i| flows / links + u64::from(i < flows % links)).collect();
            if let Some(found) = imbalance(&even(&counts)) {
                prop_assert!(found.fim_percent >= found.floor_percent - 1e-9);
                prop_assert!(found.fim_percent <= 200.0 && found.max_over_mean >= 1.0 - 1e-9);
                // Where all flows weigh the same, weighing changes nothing.
                prop_assert!(near(found.weighted_percent, found.fim_percent, 1e-9));
                let best = imbalance(&even(&evenest)).unwrap();
                prop_assert!(near(best.fim_percent, best.floor_percent, 1e-9));
            }
        }
    }
}
