//! Routes on strides: the fewest strides that add up to the distance, like coins to a sum.

use crate::topology::strides::{coins, steps};

use super::lanes::Lanes;
use super::splits::Routes;

/// Splits distances around a ring of hosts into strides.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Strides of one hop.
    steps: Vec<usize>,
    /// Fewest hops of each distance, and the number of orders in which they can be taken.
    counts: Vec<u32>,
    orders: Vec<f64>,
}

impl Change {
    pub fn of(hosts: usize, strides: &[usize]) -> Self {
        let steps = steps(hosts, strides);
        let mut change = Self {
            counts: coins(hosts, &steps),
            orders: vec![0.0; hosts],
            steps,
        };
        change.orders[0] = 1.0;
        let mut nearest: Vec<_> = (1..hosts).filter(|&it| change.hops(it).is_some()).collect();
        nearest.sort_by_key(|&distance| change.counts[distance]);
        for distance in nearest {
            let firsts = change.first_steps(distance);
            let rest = firsts.map(|step| change.orders[(distance + hosts - step) % hosts]);
            change.orders[distance] = rest.sum();
        }
        change
    }

    /// Returns the strides with which a path over this distance may begin.
    pub fn first_steps(&self, distance: usize) -> impl Iterator<Item = usize> {
        let hosts = self.counts.len();
        let wanted = self.counts[distance].wrapping_sub(1);
        let leads = move |step: &&usize| self.counts[(distance + hosts - **step) % hosts] == wanted;
        self.steps.iter().filter(leads).copied()
    }

    /// Returns the number of orders that begin with a step.
    fn orders_over(&self, distance: usize, step: usize) -> f64 {
        let hosts = self.counts.len();
        let leads = self.first_steps(distance).any(|it| it == step);
        if leads {
            self.orders[(distance + hosts - step) % hosts]
        } else {
            0.0
        }
    }

    pub fn hops(&self, distance: usize) -> Option<u32> {
        let count = self.counts[distance];
        (count != u32::MAX).then_some(count)
    }
}

/// Each order of the strides carries as much as any other.
pub fn by_coins(lanes: Lanes, change: &Change) -> Routes {
    let hosts = lanes.hosts();
    let mut routes = Routes::new(lanes);
    for to in 0..hosts {
        for at in (0..hosts).filter(|&at| at != to) {
            let distance = (to + hosts - at) % hosts;
            let lanes = routes.lanes();
            let ends = lanes.from(at as u32).map(|lane| lanes.end(lane) as usize);
            let amounts: Vec<_> = ends
                .map(|end| change.orders_over(distance, (end + hosts - at) % hosts))
                .collect();
            routes.split(at as u32, to as u32, &amounts);
        }
    }
    routes
}
