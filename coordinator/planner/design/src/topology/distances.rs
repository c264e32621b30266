//! Distances between hosts, in cables.

use super::reach::Reach;
use super::wiring::Wiring;

/// Hops between all hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distances {
    hosts: usize,
    hops: Vec<u16>,
}

const UNREACHABLE: u16 = u16::MAX;

impl Distances {
    pub fn of(wiring: &Wiring) -> Self {
        let hosts = wiring.hosts();
        let mut hops = vec![UNREACHABLE; hosts * hosts];
        (0..hosts).for_each(|host| hops[host * hosts + host] = 0);
        Reach::new(hosts).each_pair(wiring, |from, to, far| hops[from * hosts + to] = far);
        Self { hosts, hops }
    }

    /// Returns the distances from each host to this one.
    pub fn row(&self, to: u32) -> &[u16] {
        &self.hops[to as usize * self.hosts..][..self.hosts]
    }

    /// Returns none without a path.
    pub fn hops(&self, from: u32, to: u32) -> Option<u32> {
        let hops = self.row(from)[to as usize];
        (hops != UNREACHABLE).then_some(u32::from(hops))
    }

    /// Returns the number of ordered pairs at 1, 2, 3, ... hops. Unconnected pairs are not counted.
    pub fn histogram(&self) -> Vec<u64> {
        let mut counts = Vec::new();
        for &hops in self
            .hops
            .iter()
            .filter(|&&hops| hops > 0 && hops != UNREACHABLE)
        {
            let hops = usize::from(hops);
            counts.resize(counts.len().max(hops), 0);
            counts[hops - 1] += 1;
        }
        counts
    }

    pub fn diameter(&self) -> u32 {
        self.histogram().len() as u32
    }

    /// Returns the mean over all connected ordered pairs.
    pub fn mean(&self) -> f64 {
        let histogram = self.histogram();
        let pairs: u64 = histogram.iter().sum();
        let hops = (1..).zip(&histogram).map(|(hops, count)| hops * count);
        hops.sum::<u64>() as f64 / pairs.max(1) as f64
    }
}

/// Breadth-first.
pub(super) fn fill(wiring: &Wiring, from: u32, hops: &mut [u16], line: &mut Vec<u32>) {
    hops.fill(UNREACHABLE);
    hops[from as usize] = 0;
    line.clear();
    line.push(from);
    let mut at = 0;
    while let Some(&host) = line.get(at) {
        at += 1;
        let next_hops = hops[host as usize] + 1;
        for &next in wiring.neighbours(host) {
            if hops[next as usize] == UNREACHABLE {
                hops[next as usize] = next_hops;
                line.push(next);
            }
        }
    }
}

/// The fewest hops that hosts of this degree can have to each other on average (after Moore): each
/// has `degree` hosts next to it, and each of those brings at most `degree - 1` more.
pub fn moore_mean(hosts: usize, degree: usize) -> f64 {
    let (mut left, mut ring, mut hops, mut sum) = (hosts.saturating_sub(1), degree, 1, 0);
    while left > 0 && ring > 0 {
        let here = ring.min(left);
        sum += here * hops;
        left -= here;
        ring = ring.saturating_mul(degree.saturating_sub(1));
        hops += 1;
    }
    sum as f64 / hosts.saturating_sub(1).max(1) as f64
}
