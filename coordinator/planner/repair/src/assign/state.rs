//! An assignment while it is worked on.

use super::bound::Pool;
use super::{Problem, within};

pub(super) struct State<'p> {
    pub(super) problem: &'p Problem,
    pub(super) pools: &'p [Pool],
    ways: Vec<usize>,
    /// Load of each hop.
    loads: Vec<u64>,
    on: Vec<Vec<usize>>,
    /// Allowed fullness of each hop, and the highest load within it.
    allowed: Vec<f64>,
    room: Vec<u64>,
}

impl<'p> State<'p> {
    pub(super) fn new(problem: &'p Problem, pools: &'p [Pool]) -> Self {
        let mut state = Self {
            problem,
            pools,
            ways: problem.flows.iter().map(|flow| flow.way).collect(),
            loads: problem.base.clone(),
            on: vec![Vec::new(); problem.capacities.len()],
            allowed: Vec::new(),
            room: Vec::new(),
        };
        state.hope_again(1.0);
        (0..problem.flows.len()).for_each(|flow| state.add(flow));
        state
    }

    pub(super) fn ways(&self) -> &[usize] {
        &self.ways
    }

    pub(super) fn hops_of(&self, flow: usize) -> &'p [usize] {
        self.way(flow, self.ways[flow])
    }

    pub(super) fn way(&self, flow: usize, way: usize) -> &'p [usize] {
        &self.problem.pairs[self.problem.flows[flow].pair][way]
    }

    /// Returns the hops of this path that the flow does not cross now.
    pub(super) fn entered(&self, flow: usize, way: usize) -> impl Iterator<Item = usize> + use<'p> {
        changed(self.way(flow, way), self.hops_of(flow))
    }

    /// Returns the hops that the flow crosses now, and not on this path.
    pub(super) fn left(&self, flow: usize, way: usize) -> impl Iterator<Item = usize> + use<'p> {
        changed(self.hops_of(flow), self.way(flow, way))
    }

    pub(super) fn weight(&self, flow: usize) -> u64 {
        self.problem.flows[flow].weight
    }

    pub(super) fn on(&self, hop: usize) -> &[usize] {
        &self.on[hop]
    }

    pub(super) fn load(&self, hop: usize) -> u64 {
        self.loads[hop]
    }

    pub(super) fn allowed(&self, hop: usize) -> f64 {
        self.allowed[hop]
    }

    /// Every hop may be as full as it must, and no fuller; `close` times that where flows are many
    /// and uneven.
    pub(super) fn hope_again(&mut self, close: f64) {
        let mut allowed = vec![f64::INFINITY; self.problem.capacities.len()];
        for pool in self.pools {
            let target = pool.goal * if pool.uneven { close } else { 1.0 };
            for &hop in &pool.hops {
                let known = allowed[hop];
                let unknown = known.is_infinite();
                allowed[hop] = if unknown { target } else { known.max(target) };
            }
        }
        self.allow(allowed);
    }

    /// Every hop may be as full as the fullest of its pools is.
    pub(super) fn settle(&mut self) {
        let mut allowed = vec![0.0_f64; self.problem.capacities.len()];
        for (pool, peak) in self.pools.iter().zip(self.peaks()) {
            for &hop in &pool.hops {
                allowed[hop] = allowed[hop].max(peak);
            }
        }
        self.allow(allowed);
    }

    fn allow(&mut self, allowed: Vec<f64>) {
        let capacities = self.problem.capacities.iter();
        let both = allowed.iter().zip(capacities);
        self.room = both
            .map(|(&allowed, capacity)| room(allowed, *capacity))
            .collect();
        self.allowed = allowed;
    }

    /// Nothing lower was found for this hop.
    pub(super) fn resign(&mut self, hop: usize) {
        self.allowed[hop] = self.fullness(hop);
        self.room[hop] = self.loads[hop];
    }

    pub(super) fn fullness(&self, hop: usize) -> f64 {
        self.fullness_at(hop, self.loads[hop])
    }

    pub(super) fn fullness_at(&self, hop: usize, load: u64) -> f64 {
        load as f64 / self.problem.capacities[hop]
    }

    pub(super) fn fits(&self, hop: usize, load: u64) -> bool {
        load <= self.room[hop]
    }

    pub(super) fn is_over(&self, hop: usize) -> bool {
        !self.fits(hop, self.loads[hop])
    }

    pub(super) fn set(&mut self, flow: usize, way: usize) {
        self.remove(flow);
        self.ways[flow] = way;
        self.add(flow);
    }

    pub(super) fn take(&mut self, ways: &[usize]) {
        for (flow, &way) in ways.iter().enumerate() {
            if self.ways[flow] != way {
                self.set(flow, way);
            }
        }
    }

    pub(super) fn moved(&self) -> impl Iterator<Item = usize> {
        let pairs = self.ways.iter().zip(&self.problem.flows).enumerate();
        pairs
            .filter(|(_, (way, flow))| **way != flow.way && !flow.homeless)
            .map(|(flow, _)| flow)
    }

    pub(super) fn moves(&self) -> usize {
        self.moved().count()
    }

    /// Returns the fullness of each pool's fullest hop, or the goal if that is higher.
    pub(super) fn peaks(&self) -> Vec<f64> {
        let peak = |pool: &Pool| pool.peak(|hop| self.fullness(hop));
        self.pools.iter().map(peak).collect()
    }

    fn add(&mut self, flow: usize) {
        for &hop in self.hops_of(flow) {
            self.loads[hop] += self.problem.flows[flow].weight;
            self.on[hop].push(flow);
        }
    }

    fn remove(&mut self, flow: usize) {
        for &hop in self.hops_of(flow) {
            self.loads[hop] -= self.problem.flows[flow].weight;
            self.on[hop].retain(|&other| other != flow);
        }
    }
}

/// The most load over this capacity that is allowed, as close as rounding lets it be.
fn room(allowed: f64, capacity: f64) -> u64 {
    if allowed.is_infinite() {
        u64::MAX
    } else {
        (within(allowed) * capacity) as u64
    }
}

/// Returns the hops of one path that the other does not cross at the same place.
fn changed<'w>(way: &'w [usize], other: &'w [usize]) -> impl Iterator<Item = usize> + use<'w> {
    let places = way.iter().zip(other);
    places
        .filter(|(hop, other)| hop != other)
        .map(|(&hop, _)| hop)
}
