//! Adds circuits one by one for the slowest host, towards its largest remaining transfer. Then exchanges pairs of
//! circuits as long as that speeds up the slowest hosts.

use super::{Circuits, Counts, Region};

/// Maximum number of exchanges that are tried.
const MAX_TRIES: usize = 1024;

/// Circuits that no exchange for the slowest host makes better.
pub(super) fn lay(region: &Region, counts: &Counts) -> Circuits {
    let mut laying = Laying::new(region, counts);
    while laying.add_one() {}
    let mut tries = MAX_TRIES;
    while laying.exchange(&mut tries) {}
    laying.circuits
}

struct Laying<'l> {
    region: &'l Region,
    counts: &'l Counts,
    circuits: Circuits,
    /// Time of each host.
    times_ms: Vec<f64>,
    free: Vec<usize>,
}

/// Change of the number of circuits between two hosts.
type Change = ([usize; 2], i8);

impl<'l> Laying<'l> {
    fn new(region: &'l Region, counts: &'l Counts) -> Self {
        let circuits = Circuits::new(counts.hosts);
        let hosts = 0..counts.hosts;
        Self {
            times_ms: hosts
                .map(|host| region.host_ms(counts, &circuits, host))
                .collect(),
            free: vec![region.ports; counts.hosts],
            region,
            counts,
            circuits,
        }
    }

    /// Adds a circuit for the slowest host that can have one.
    fn add_one(&mut self) -> bool {
        let mut order: Vec<_> = (0..self.counts.hosts).collect();
        order.retain(|&host| self.free[host] > 0);
        order.sort_by(|&a, &b| self.times_ms[b].total_cmp(&self.times_ms[a]));
        let joined = order.into_iter().find_map(|host| {
            let mut peers = self.peers(host).into_iter();
            Some([host, peers.find(|&peer| self.free[peer] > 0)?])
        });
        joined.into_iter().for_each(|ends| self.make(&[(ends, 1)]));
        joined.is_some()
    }

    /// Returns the hosts to which a host could have another circuit, most remaining work first.
    fn peers(&self, host: usize) -> Vec<usize> {
        let others = (0..self.counts.hosts).filter(|&other| other != host);
        let shares = others.map(|other| (other, self.share(host, other)));
        let mut peers: Vec<_> = shares.filter(|(_, share)| *share > 0.0).collect();
        peers.sort_by(|a, b| b.1.total_cmp(&a.1));
        peers.into_iter().map(|(other, _)| other).collect()
    }

    /// Returns the remaining work of a pair with one more circuit.
    fn share(&self, a: usize, b: usize) -> f64 {
        let [sent, received] = self.counts.both_ways(a, b);
        sent.max(received) / (self.circuits.between(a, b) + 1) as f64
    }

    fn slowest(&self) -> Option<usize> {
        let slower = |a: &usize, b: &usize| self.times_ms[*a].total_cmp(&self.times_ms[*b]);
        (0..self.counts.hosts).max_by(slower)
    }

    /// Gives the slowest host a circuit to a peer. Each of the two releases another circuit, and the two free ends are
    /// joined.
    fn exchange(&mut self, tries: &mut usize) -> bool {
        let Some(host) = self.slowest() else {
            return false;
        };
        let peers = self.peers(host).into_iter();
        let given = |&peer: &usize| self.given(host, peer).into_iter().map(move |it| (peer, it));
        let gifts: Vec<_> = peers.flat_map(|peer| given(&peer)).collect();
        for (peer, given) in gifts {
            for taken in self.given(peer, host) {
                if *tries == 0 {
                    return false;
                }
                *tries -= 1;
                if self.gains(&exchanged([host, peer], [given, taken])) {
                    return true;
                }
            }
        }
        false
    }

    /// Returns the peers whose circuit a host can release for another one; none if it has a free port.
    fn given(&self, host: usize, peer: usize) -> Vec<Option<usize>> {
        if self.free[host] > 0 {
            return vec![None];
        }
        let own = self.circuits.of_host(host).iter().enumerate();
        let own = own.filter(|&(other, &count)| other != peer && count > 0);
        own.map(|(other, _)| Some(other)).collect()
    }

    /// Applies the changes if the slowest affected host becomes faster, or the next one at equal times, so that fewer
    /// hosts limit the next exchange. Otherwise undoes them.
    fn gains(&mut self, changes: &[Change]) -> bool {
        let ends = ends(changes);
        let old: Vec<_> = ends.iter().map(|&host| self.times_ms[host]).collect();
        self.make(changes);
        let new = ends.iter().map(|&host| self.times_ms[host]).collect();
        if slowest_first(new) < slowest_first(old.clone()) {
            return true;
        }
        let back = changes.iter().rev();
        back.for_each(|&(ends, by)| self.change(ends, -by));
        for (host, time_ms) in ends.into_iter().zip(old) {
            self.times_ms[host] = time_ms;
        }
        false
    }

    fn make(&mut self, changes: &[Change]) {
        changes.iter().for_each(|&(ends, by)| self.change(ends, by));
        for host in ends(changes) {
            self.times_ms[host] = self.region.host_ms(self.counts, &self.circuits, host);
        }
    }

    fn change(&mut self, [a, b]: [usize; 2], by: i8) {
        self.circuits.change(a, b, by);
        for end in [a, b] {
            self.free[end] = self.free[end].saturating_add_signed(-isize::from(by));
        }
    }
}

fn ends(changes: &[Change]) -> Vec<usize> {
    let mut ends: Vec<_> = changes.iter().flat_map(|(ends, _)| *ends).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

fn slowest_first(mut times_ms: Vec<f64>) -> Vec<f64> {
    times_ms.sort_by(|a, b| b.total_cmp(a));
    times_ms
}

/// One between a host and its peer, for one that each of them gives up.
fn exchanged([host, peer]: [usize; 2], [given, taken]: [Option<usize>; 2]) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::with_capacity(4);
    changes.extend(given.map(|given| ([host, given], -1)));
    changes.extend(taken.map(|taken| ([peer, taken], -1)));
    changes.push(([host, peer], 1));
    let freed = given.zip(taken).filter(|(a, b)| a != b);
    changes.extend(freed.map(|(a, b)| ([a, b], 1)));
    changes
}

#[cfg(test)]
mod tests {
    use reweave_common::split_mix::SplitMix64;

    use super::super::few;
    use super::*;

    /// Returns the ratio of the optimal time to that of the exchanges.
    fn part_of_the_best(region: &Region, hosts: usize, rng: &mut SplitMix64) -> f64 {
        let mut counts = Counts::new(hosts);
        let pairs = (0..hosts).flat_map(|from| (0..hosts).map(move |to| (from, to)));
        pairs.for_each(|(from, to)| counts.add(from, to, rng.below(100) as f64 * 1e6));
        let laid = lay(region, &counts);
        let ms = region.time_ms(&counts, &laid);
        region.time_ms(&counts, &few::best(region, &counts, laid)) / ms
    }

    #[test]
    fn circuit_exchanges_approach_optimum() {
        for ports in [1, 2, 4, 8] {
            let region = Region {
                ports,
                circuit_gbps: 100.0,
                switched_gbps: 100.0,
            };
            let mut rng = SplitMix64::new(1);
            let parts: Vec<_> = (0..40)
                .map(|_| part_of_the_best(&region, 8, &mut rng))
                .collect();
            let mean = parts.iter().sum::<f64>() / parts.len() as f64;
            let worst = parts.iter().copied().fold(1.0, f64::min);
            assert!(
                mean > 0.98 && worst > 0.8,
                "{ports} ports: {mean}, at worst {worst}"
            );
        }
    }
}
