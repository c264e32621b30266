//! How each host splits what it has for each destination.

use super::lanes::Lanes;

/// By destination and lane, the weight of the lane against the others of its host. A host has none
/// for itself, nor where there is no way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    lanes: Lanes,
    weights: Vec<u8>,
}

/// Hosts from one end to the other, and what part of the traffic goes there.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    pub hosts: Vec<u32>,
    pub share: f64,
}

/// The weights of a host add up to about as much.
const WHOLE: f64 = 240.0;

impl Routes {
    /// Without any ways yet.
    pub fn new(lanes: Lanes) -> Self {
        let weights = vec![0; lanes.hosts() * lanes.count()];
        Self { lanes, weights }
    }

    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// By lane.
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

    /// Sets the weights of a host from what it shall send over each of its lanes.
    pub(super) fn split(&mut self, at: u32, to: u32, amounts: &[f64]) {
        let total: f64 = amounts.iter().sum();
        let range = self.lanes.from(at);
        let weights = &mut self.towards_mut(to)[range];
        for (weight, amount) in weights.iter_mut().zip(amounts) {
            *weight = match total > 0.0 {
                true => (amount / total * WHOLE).round() as u8,
                false => 0,
            };
        }
    }

    /// The ways between two hosts, the fullest first, and at most so many of them; what the others
    /// would carry is dealt out among these. None where there is no way.
    pub fn ways(&self, from: u32, to: u32, most: usize) -> Vec<Way> {
        let mut open = vec![Way {
            hosts: vec![from],
            share: 1.0,
        }];
        let mut done = Vec::new();
        while let Some(way) = open.pop() {
            let at = way.hosts[way.hosts.len() - 1];
            if at == to {
                done.push(way);
                continue;
            }
            open.extend(self.onwards(&way, at, to));
            thin_out(&mut open, most.saturating_sub(done.len()).max(1));
        }
        let covered: f64 = done.iter().map(|way| way.share).sum();
        done.iter_mut().for_each(|way| way.share /= covered);
        done.sort_by(|a, b| {
            b.share
                .total_cmp(&a.share)
                .then_with(|| a.hosts.cmp(&b.hosts))
        });
        done
    }

    fn onwards(&self, way: &Way, at: u32, to: u32) -> Vec<Way> {
        let next = self.next(at, to);
        let total: f64 = next.clone().map(|(_, weight)| f64::from(weight)).sum();
        let longer = next.map(|(lane, weight)| {
            let mut hosts = way.hosts.clone();
            hosts.push(self.lanes.end(lane));
            Way {
                hosts,
                share: way.share * f64::from(weight) / total,
            }
        });
        longer.collect()
    }

    /// What each lane carries of a demand.
    pub fn loads<'d>(&self, demand: impl Iterator<Item = (&'d (u32, u32), &'d f64)>) -> Vec<f64> {
        let mut by_destination = vec![Vec::new(); self.lanes.hosts()];
        for (&(from, to), &amount) in demand {
            by_destination[to as usize].push((from, amount));
        }
        let mut loads = vec![0.0; self.lanes.count()];
        for (to, sent) in (0..).zip(&by_destination) {
            if !sent.is_empty() {
                self.load_towards(to, sent, &mut loads);
            }
        }
        loads
    }

    fn load_towards(&self, to: u32, sent: &[(u32, f64)], loads: &mut [f64]) {
        let mut amounts = vec![0.0; self.lanes.hosts()];
        for &(from, amount) in sent {
            amounts[from as usize] += amount;
        }
        for at in self.farthest_first(to) {
            let amount = amounts[at as usize];
            let next = self.next(at, to);
            let total: f64 = next.clone().map(|(_, weight)| f64::from(weight)).sum();
            for (lane, weight) in next.filter(|_| amount > 0.0) {
                let part = amount * f64::from(weight) / total;
                loads[lane] += part;
                amounts[self.lanes.end(lane) as usize] += part;
            }
        }
    }

    /// The hosts in an order in which none comes after one that it sends to.
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

/// Keeps the ways that carry most, the fullest last.
fn thin_out(ways: &mut Vec<Way>, most: usize) {
    ways.sort_by(|a, b| {
        a.share
            .total_cmp(&b.share)
            .then_with(|| b.hosts.cmp(&a.hosts))
    });
    let surplus = ways.len().saturating_sub(most);
    ways.drain(..surplus);
}
