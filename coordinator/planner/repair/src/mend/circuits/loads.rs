//! Loads of lanes if all traffic is spread evenly over all shortest paths, and the deviation that a few large flows,
//! each on one path, can cause.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;

use super::board::{Lane, Lanes};

/// Number of standard deviations that are taken for certain not to be exceeded.
const CERTAIN_DEVIATIONS: f64 = 2.0;
/// Tolerance for the sum of parts.
const ROUNDING_TOLERANCE: f64 = 1e-6;

/// Rate of one flow while it sends, in bits/s on the wire.
#[derive(Debug, Clone, Copy)]
pub(in crate::mend) struct Sent {
    pub(in crate::mend) from: NodeId,
    pub(in crate::mend) to: NodeId,
    pub(in crate::mend) rate: f64,
}

/// Traffic from one node to another.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::mend) struct Bundle {
    pub(in crate::mend) rate: f64,
    /// Rate of the largest flow, which takes a single path.
    pub(in crate::mend) largest: f64,
}

impl Bundle {
    pub(in crate::mend) fn and(self, other: Self) -> Self {
        Self {
            rate: self.rate + other.rate,
            largest: self.largest.max(other.largest),
        }
    }

    fn part(self, of: usize) -> Self {
        Self {
            rate: self.rate / of as f64,
            ..self
        }
    }

    /// Returns the load that a lane must carry for it.
    pub(in crate::mend) fn load(self) -> f64 {
        self.rate.max(self.largest)
    }
}

/// Loads by node and lane.
pub(in crate::mend) type Loads = Vec<Vec<Bundle>>;

/// The network by one wiring.
pub(in crate::mend) struct Net<'n> {
    pub(in crate::mend) fabric: &'n Fabric,
    pub(in crate::mend) lanes: &'n Lanes,
}

/// Load of the fullest lane on the path of a flow, relative to its capacity.
#[derive(Debug, Clone, Copy)]
pub(in crate::mend) struct Strain {
    pub(in crate::mend) mean: f64,
    pub(in crate::mend) high: f64,
}

impl Net<'_> {
    /// Returns none if a host is unreachable.
    pub(in crate::mend) fn even(
        &self,
        sent: &BTreeMap<NodeId, Vec<(NodeId, Bundle)>>,
    ) -> Option<Loads> {
        let mut loads: Loads = self.by_lane();
        for (&to, senders) in sent {
            let distances = self.distances(to);
            let is_reached = |(from, _): &(NodeId, Bundle)| distances[from.index()].is_some();
            if !senders.iter().all(is_reached) {
                return None;
            }
            self.pour(to, senders, &distances, |at, lane, part| {
                loads[at][lane] = loads[at][lane].and(part);
            });
        }
        Some(loads)
    }

    fn by_lane<T: Clone + Default>(&self) -> Vec<Vec<T>> {
        let lanes = self.lanes.iter();
        lanes.map(|it| vec![T::default(); it.len()]).collect()
    }

    /// Whether all nodes that may exchange data can reach each other.
    pub(in crate::mend) fn joins_all(&self) -> bool {
        let Some(first) = self.fabric.endpoints().next() else {
            return true;
        };
        let distances = self.distances(first);
        let mut endpoints = self.fabric.endpoints();
        endpoints.all(|it| distances[it.index()].is_some())
    }

    /// Returns the number of lanes from each node to this one.
    fn distances(&self, to: NodeId) -> Vec<Option<u32>> {
        let mut distances = vec![None; self.lanes.len()];
        distances[to.index()] = Some(0);
        let mut reached = vec![to];
        for distance in 1.. {
            let mut next = Vec::new();
            for &node in reached.iter().filter(|node| self.leads_on(**node, to)) {
                for lane in &self.lanes[node.index()] {
                    let known = &mut distances[lane.to.index()];
                    if known.is_none() {
                        *known = Some(distance);
                        next.push(lane.to);
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            reached = next;
        }
        distances
    }

    fn leads_on(&self, node: NodeId, to: NodeId) -> bool {
        node == to || self.fabric.node(node).role.forwards()
    }

    /// Routes the traffic to one node, starting from the farthest node, and calls back for each part.
    fn pour(
        &self,
        to: NodeId,
        senders: &[(NodeId, Bundle)],
        distances: &[Option<u32>],
        mut tell: impl FnMut(usize, usize, Bundle),
    ) {
        let mut amounts = vec![Bundle::default(); self.lanes.len()];
        for (from, bundle) in senders {
            amounts[from.index()] = amounts[from.index()].and(*bundle);
        }
        let mut order: Vec<_> = (0..amounts.len()).collect();
        order.retain(|node| distances[*node].is_some());
        order.sort_by_key(|node| std::cmp::Reverse(distances[*node]));
        for at in order {
            let amount = std::mem::take(&mut amounts[at]);
            let lanes = self.lanes[at].iter().enumerate();
            let closer = lanes.filter(|(_, lane)| self.is_closer(at, lane, to, distances));
            let closer: Vec<_> = closer
                .map(|(place, lane)| (place, lane.to.index()))
                .collect();
            for &(place, far) in closer.iter().filter(|_| amount.rate > 0.0) {
                let part = amount.part(closer.len());
                amounts[far] = amounts[far].and(part);
                tell(at, place, part);
            }
        }
    }

    fn is_closer(&self, at: usize, lane: &Lane, to: NodeId, distances: &[Option<u32>]) -> bool {
        let far = distances[lane.to.index()].map(|far| far + 1);
        far == distances[at] && at != to.index() && self.leads_on(lane.to, to)
    }

    /// Returns the strain of each flow, if each takes one of its paths at random.
    pub(in crate::mend) fn strains(&self, flows: &[Sent]) -> Option<Vec<Strain>> {
        let ways: Option<Vec<_>> = flows.iter().map(|flow| self.chances(*flow)).collect();
        let ways = ways?;
        let mut odds: Vec<Vec<Odds>> = self.by_lane();
        for (flow, way) in flows.iter().zip(&ways) {
            for &(at, lane, chance) in way {
                odds[at][lane].add(flow.rate, chance);
            }
        }
        let strains = flows.iter().zip(&ways).map(|(flow, way)| {
            let lanes = way.iter().map(|&(at, lane, _)| {
                let loads = odds[at][lane].loads();
                loads.map(|load| load.max(flow.rate) / self.lanes[at][lane].rate)
            });
            let fullest = lanes.fold([0.0, 0.0], |[a, b]: [f64; 2], [mean, high]| {
                [a.max(mean), b.max(high)]
            });
            let [mean, high] = fullest;
            Strain { mean, high }
        });
        Some(strains.collect())
    }

    /// Returns the lanes that all traffic between two nodes crosses, with the nodes before them.
    pub(in crate::mend) fn surely_crossed(&self, from: NodeId, to: NodeId) -> Vec<(NodeId, Lane)> {
        let rate = 1.0;
        let chances = self.chances(Sent { from, to, rate });
        let sure = chances.unwrap_or_default().into_iter();
        let sure = sure.filter(|(.., chance)| *chance > 1.0 - ROUNDING_TOLERANCE);
        sure.map(|(at, lane, _)| (NodeId::from_index(at), self.lanes[at][lane]))
            .collect()
    }

    /// Returns the lanes that a flow may cross, with probabilities.
    fn chances(&self, flow: Sent) -> Option<Vec<(usize, usize, f64)>> {
        let distances = self.distances(flow.to);
        distances[flow.from.index()]?;
        let one = Bundle {
            rate: 1.0,
            largest: 1.0,
        };
        let mut chances = Vec::new();
        self.pour(
            flow.to,
            &[(flow.from, one)],
            &distances,
            |at, lane, part| {
                chances.push((at, lane, part.rate));
            },
        );
        Some(chances)
    }
}

/// Random load of flows on a lane.
#[derive(Debug, Clone, Copy, Default)]
struct Odds {
    mean: f64,
    variance: f64,
    /// If all came.
    all: f64,
}

impl Odds {
    fn add(&mut self, rate: f64, chance: f64) {
        self.mean += chance * rate;
        self.variance += chance * (1.0 - chance) * rate * rate;
        self.all += rate;
    }

    /// Returns the expected load, and the load that is surely not exceeded.
    fn loads(self) -> [f64; 2] {
        let surely = self.mean + CERTAIN_DEVIATIONS * libm::sqrt(self.variance.max(0.0));
        [self.mean, surely.min(self.all)]
    }
}
