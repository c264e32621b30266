//! How each host splits its traffic for each destination over its lanes.

use super::balance::order;
use super::lanes::Lanes;
use crate::topology::Distances;

/// Weight of each lane among the lanes of its host, by destination. Zero for the host itself and without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    lanes: Lanes,
    weights: Vec<u8>,
}

/// Hosts on the path, and its share of the traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedPath {
    pub hosts: Vec<u32>,
    pub share: f64,
}

/// The weights of a host add up to about as much, before they are made as small as they can be.
const WEIGHT_SUM: f64 = 240.0;

impl Routes {
    /// Creates routes without paths.
    pub fn new(lanes: Lanes) -> Self {
        let weights = vec![0; lanes.hosts() * lanes.count()];
        Self { lanes, weights }
    }

    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Returns the weights by lane.
    pub fn towards(&self, to: u32) -> &[u8] {
        let count = self.lanes.count();
        &self.weights[to as usize * count..][..count]
    }

    pub(super) fn towards_mut(&mut self, to: u32) -> &mut [u8] {
        let count = self.lanes.count();
        &mut self.weights[to as usize * count..][..count]
    }

    /// The lanes over which a host sends what is meant for another, with their weights.
    pub fn next(&self, at: u32, to: u32) -> impl Iterator<Item = (usize, u8)> + Clone {
        let weights = self.towards(to);
        let lanes = self.lanes.from(at).map(|lane| (lane, weights[lane]));
        lanes.filter(|(_, weight)| *weight > 0)
    }

    /// Sets the weights of a host from what it should send over each of its lanes.
    pub(super) fn split(&mut self, at: u32, to: u32, amounts: &[f64]) {
        let total: f64 = amounts.iter().sum();
        let range = self.lanes.from(at);
        let weights = &mut self.towards_mut(to)[range];
        for (weight, amount) in weights.iter_mut().zip(amounts) {
            *weight = if total > 0.0 {
                (amount / total * WEIGHT_SUM + 0.5) as u8
            } else {
                0
            };
        }
        // A kernel that gets one next hop of any weight says that it has one of weight 1.
        let common = weights.iter().copied().fold(0, gcd).max(1);
        weights.iter_mut().for_each(|weight| *weight /= common);
    }

    /// Returns at most `most` paths between two hosts, fullest first; the traffic of the others is added to these. None
    /// without a path.
    pub fn ways(&self, from: u32, to: u32, most: usize) -> Vec<WeightedPath> {
        let hosts = |hops: &[u32]| {
            let ends = hops.iter().map(|&lane| self.lanes.end(lane as usize));
            std::iter::once(from).chain(ends).collect()
        };
        let ways = self.hops(from, to, most).into_iter();
        ways.map(|(hops, share)| WeightedPath {
            hosts: hosts(&hops),
            share,
        })
        .collect()
    }

    /// Returns the same paths, as lanes.
    pub(super) fn hops(&self, from: u32, to: u32, most: usize) -> Vec<(Vec<u32>, f64)> {
        let mut search = Search::default();
        let mut open = vec![(1.0, from, NO_PREVIOUS_HOP)];
        let mut done = Vec::new();
        while let Some((share, at, step)) = open.pop() {
            if at == to {
                done.push((share, step));
                continue;
            }
            self.go_on(&mut search, &mut open, (share, at, step), to);
            let surplus = open
                .len()
                .saturating_sub(most.saturating_sub(done.len()).max(1));
            open.drain(..surplus);
        }
        let covered: f64 = done.iter().map(|(share, _)| share).sum();
        let whole = |(share, step)| (search.lanes_to(step), share / covered);
        let mut ways: Vec<_> = done.into_iter().map(whole).collect();
        ways.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        ways
    }

    /// Adds every lane that continues a path, fullest last; of equals, the smaller number.
    fn go_on(&self, search: &mut Search, open: &mut Vec<End>, (share, at, step): End, to: u32) {
        let next = self.next(at, to);
        let total: u32 = next.clone().map(|(_, weight)| u32::from(weight)).sum();
        for (lane, weight) in next {
            let share = share * f64::from(weight) / f64::from(total);
            let place = open.partition_point(|(other, ..)| *other < share);
            let end = (share, self.lanes.end(lane), search.step(lane as u32, step));
            open.insert(place, end);
        }
    }

    /// Returns the load of each lane from a demand.
    pub fn loads<'d>(&self, demand: impl Iterator<Item = (&'d (u32, u32), &'d f64)>) -> Vec<f64> {
        self.loads_in_order(demand, |to| self.farthest_first(to))
    }

    /// The same where no hop leads away from its destination, nor to a host with a larger number that
    /// is as far from it.
    pub fn loads_by<'d>(
        &self,
        distances: &Distances,
        demand: impl Iterator<Item = (&'d (u32, u32), &'d f64)>,
    ) -> Vec<f64> {
        let farthest_first = |to| {
            let mut order = order(distances.row(to));
            order.reverse();
            order
        };
        self.loads_in_order(demand, farthest_first)
    }

    fn loads_in_order<'d>(
        &self,
        demand: impl Iterator<Item = (&'d (u32, u32), &'d f64)>,
        farthest_first: impl Fn(u32) -> Vec<u32>,
    ) -> Vec<f64> {
        let mut by_destination = vec![Vec::new(); self.lanes.hosts()];
        for (&(from, to), &amount) in demand {
            by_destination[to as usize].push((from, amount));
        }
        let mut loads = vec![0.0; self.lanes.count()];
        for (to, sent) in (0..).zip(&by_destination) {
            if !sent.is_empty() {
                self.load_towards(to, sent, &farthest_first(to), &mut loads);
            }
        }
        loads
    }

    fn load_towards(&self, to: u32, sent: &[(u32, f64)], order: &[u32], loads: &mut [f64]) {
        let mut amounts = vec![0.0; self.lanes.hosts()];
        for &(from, amount) in sent {
            amounts[from as usize] += amount;
        }
        for &at in order {
            let amount = amounts[at as usize];
            if amount == 0.0 {
                continue;
            }
            let next = self.next(at, to);
            let total: u32 = next.clone().map(|(_, weight)| u32::from(weight)).sum();
            for (lane, weight) in next {
                let part = amount * f64::from(weight) / f64::from(total);
                loads[lane] += part;
                amounts[self.lanes.end(lane) as usize] += part;
            }
        }
    }

    /// Returns the hosts in an order in which every host precedes the ones that it sends to.
    pub fn farthest_first(&self, to: u32) -> Vec<u32> {
        let hosts = self.lanes.hosts();
        let mut waits = vec![0u32; hosts];
        for at in 0..hosts as u32 {
            for (lane, _) in self.next(at, to) {
                waits[self.lanes.end(lane) as usize] += 1;
            }
        }
        let mut order: Vec<_> = (0..hosts as u32)
            .filter(|&at| waits[at as usize] == 0)
            .collect();
        let mut nth = 0;
        while let Some(&at) = order.get(nth) {
            nth += 1;
            for (lane, _) in self.next(at, to) {
                let next = self.lanes.end(lane);
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    order.push(next);
                }
            }
        }
        order
    }
}

fn gcd(a: u8, b: u8) -> u8 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Share of the traffic on a partial path, the host at its end, and its last step.
type End = (f64, u32, u32);

/// Before the first step.
const NO_PREVIOUS_HOP: u32 = u32::MAX;

/// Search for paths: each step is a lane after another step.
#[derive(Default)]
struct Search {
    steps: Vec<(u32, u32)>,
}

impl Search {
    fn step(&mut self, lane: u32, before: u32) -> u32 {
        self.steps.push((lane, before));
        self.steps.len() as u32 - 1
    }

    fn lanes_to(&self, mut step: u32) -> Vec<u32> {
        let mut lanes = Vec::new();
        while let Some(&(lane, before)) = self.steps.get(step as usize) {
            lanes.push(lane);
            step = before;
        }
        lanes.reverse();
        lanes
    }
}
