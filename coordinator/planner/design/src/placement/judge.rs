//! The quality of an order.

use std::collections::BTreeMap;

use super::Request;
use super::spots::Spots;

/// Score of an order: the first field decides, the second one breaks ties.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Score {
    pub(super) slowest_s: f64,
    /// Total time of all links.
    pub(super) strain_s: f64,
}

pub(super) struct Judge {
    places: usize,
    /// Partners of each place, with the exchanged bytes.
    sends: Vec<Vec<(usize, f64)>>,
    receives: Vec<Vec<(usize, f64)>>,
    pub(super) spots: Spots,
    /// Measured pairs, in bytes per second.
    pairs: BTreeMap<(usize, usize), f64>,
}

/// Loads of an order, updated as places are exchanged.
pub(super) struct Loads {
    /// Time of each representative link.
    times_s: Vec<f64>,
    strain_s: f64,
}

impl Judge {
    pub(super) fn new(request: &Request<'_>) -> Self {
        let hosts = request.hosts.iter().enumerate();
        let index: BTreeMap<_, _> = hosts.map(|(at, host)| (*host, at)).collect();
        let pairs = request.pairs.iter().filter_map(|((from, to), bits)| {
            Some(((*index.get(from)?, *index.get(to)?), bits / 8.0))
        });
        let mut judge = Self {
            places: request.demand.places,
            sends: vec![Vec::new(); request.demand.places],
            receives: vec![Vec::new(); request.demand.places],
            spots: Spots::new(request.fabric, request.hosts),
            pairs: pairs.collect(),
        };
        for (&(from, to), &bytes) in &request.demand.bytes {
            judge.sends[from].push((to, bytes));
            judge.receives[to].push((from, bytes));
        }
        judge
    }

    pub(super) fn spot(&self, host: usize) -> usize {
        self.spots.of_host[host]
    }

    /// Returns the partners of a place, with the exchanged bytes.
    pub(super) fn partners(&self, place: usize) -> impl Iterator<Item = (usize, f64)> {
        let both = self
            .sends
            .get(place)
            .into_iter()
            .chain(self.receives.get(place));
        both.flatten().copied()
    }

    fn sent(&self) -> impl Iterator<Item = ([usize; 2], f64)> {
        let sends = self.sends.iter().enumerate();
        sends.flat_map(|(from, sends)| sends.iter().map(move |&(to, bytes)| ([from, to], bytes)))
    }

    /// Returns the bytes between hosts at different switches; on rails, between different leaves.
    pub(super) fn crossing(&self, order: &[usize]) -> f64 {
        let crossing = self.sent().map(|(ends, bytes)| {
            let spots = ends.map(|place| self.spot(order[place]));
            bytes * self.spots.crossing(spots)
        });
        crossing.fold(0.0, |sum, bytes| sum + bytes)
    }

    pub(super) fn loads(&self, order: &[usize]) -> Loads {
        let mut loads = Loads {
            times_s: vec![0.0; self.spots.links],
            strain_s: 0.0,
        };
        for (ends, bytes) in self.sent() {
            self.count(&mut loads, order, ends, bytes);
        }
        loads
    }

    fn count(&self, loads: &mut Loads, order: &[usize], ends: [usize; 2], bytes: f64) {
        let spots = ends.map(|place| self.spot(order[place]));
        for &(link, s_per_byte) in self.spots.between(spots) {
            loads.times_s[link] += bytes * s_per_byte;
            loads.strain_s += bytes * s_per_byte;
        }
    }

    /// Exchanges two places, and keeps the loads true.
    pub(super) fn exchange(&self, loads: &mut Loads, order: &mut [usize], [a, b]: [usize; 2]) {
        self.recount(loads, order, [a, b], -1.0);
        order.swap(a, b);
        self.recount(loads, order, [a, b], 1.0);
    }

    fn recount(&self, loads: &mut Loads, order: &[usize], [a, b]: [usize; 2], sign: f64) {
        for place in [a, b].into_iter().filter(|&place| place < self.places) {
            for &(to, bytes) in &self.sends[place] {
                self.count(loads, order, [place, to], sign * bytes);
            }
            let other = if place == a { b } else { a };
            // Between the two it was counted with what the other sends.
            for &(from, bytes) in self.receives[place]
                .iter()
                .filter(|(from, _)| *from != other)
            {
                self.count(loads, order, [from, place], sign * bytes);
            }
        }
    }

    pub(super) fn score(&self, order: &[usize]) -> Score {
        self.score_of(&self.loads(order), order)
    }

    pub(super) fn score_of(&self, loads: &Loads, order: &[usize]) -> Score {
        let links = loads.times_s.iter().copied().fold(0.0, f64::max);
        Score {
            slowest_s: whole(links)
                .max(self.slowest_host(order))
                .max(self.slowest_pair(order)),
            strain_s: whole(loads.strain_s),
        }
    }

    /// The assignment does not matter if all ports are equal.
    fn slowest_host(&self, order: &[usize]) -> f64 {
        let time = |place: usize, pairs: &[(usize, f64)]| {
            let exchanged = pairs.iter();
            let exchanged = exchanged.map(|&(other, bytes)| (self.spot(order[other]), bytes));
            self.spots.port_s(self.spot(order[place]), exchanged)
        };
        (0..self.places)
            .map(|place| time(place, &self.sends[place]).max(time(place, &self.receives[place])))
            .fold(0.0, f64::max)
    }

    fn slowest_pair(&self, order: &[usize]) -> f64 {
        if self.pairs.is_empty() {
            return 0.0;
        }
        let times = (0..self.places).flat_map(|from| {
            self.sends[from].iter().filter_map(move |&(to, bytes)| {
                Some(bytes / self.pairs.get(&(order[from], order[to]))?)
            })
        });
        times.fold(0.0, f64::max)
    }
}

/// Sums that came and went leave crumbs: to the trillionth of a second.
fn whole(seconds: f64) -> f64 {
    (seconds * 1e12).round() / 1e12
}
