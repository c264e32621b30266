//! What no choice of ways can exceed.

use std::collections::BTreeSet;

use reweave_common::units::Rate;

use super::{Flow, Model};
use crate::maxmin::{Share, max_min};

/// Hops of which a flow crosses one, whichever way it takes, by their places among the capacities.
/// A hop that all ways have in common is alone in its pool.
type Pool = BTreeSet<usize>;

impl Flow<'_> {
    /// The hops that its ways have in the same place, place by place.
    fn pools(&self) -> impl Iterator<Item = Pool> {
        let shortest = self.places.iter().map(Vec::len).min().unwrap_or(0);
        (0..shortest).map(|place| self.places.iter().map(|way| way[place]).collect())
    }

    fn must_cross(&self, pool: &Pool) -> bool {
        let crosses = |way: &Vec<usize>| way.iter().any(|place| pool.contains(place));
        self.places.iter().all(crosses)
    }
}

impl Model<'_> {
    /// What the flows would get if every pool were one hop as wide as all of it, and they asked for
    /// no more than `limits` besides. Compared from the slowest up, no choice of ways gives more.
    pub(crate) fn ceiling(&self, limits: &[Option<Rate>]) -> Vec<Share> {
        let pools: BTreeSet<_> = self.flows.iter().flat_map(Flow::pools).collect();
        let widths: Vec<_> = pools.iter().map(|pool| self.width(pool)).collect();
        let crossed = |flow: &Flow<'_>| {
            let pools = pools.iter().enumerate();
            let crossed = pools.filter(|(_, pool)| flow.must_cross(pool));
            crossed.map(|(index, _)| index).collect::<Vec<_>>()
        };
        let crossed: Vec<_> = self.flows.iter().map(crossed).collect();
        let flows = self.flows.iter().zip(&crossed);
        let mut demands: Vec<_> = flows.map(|(flow, pools)| flow.demand(pools)).collect();
        for (demand, &limit) in demands.iter_mut().zip(limits) {
            demand.most = [demand.most, limit].into_iter().flatten().min();
        }
        max_min(&widths, &demands)
    }

    fn width(&self, pool: &Pool) -> Rate {
        let bits = pool
            .iter()
            .map(|&place| self.capacities[place].bits_per_s());
        Rate::from_bits_per_s(bits.fold(0, u64::saturating_add))
    }
}
