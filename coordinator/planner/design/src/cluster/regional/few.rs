//! Enumerates the circuits of few hosts, without those that cannot be faster.

use super::{Circuits, Counts, GBPS_TO_BYTES_PER_MS, Region};

/// Maximum number of hosts: more have too many combinations to search.
const MAX_HOSTS: usize = 16;
/// Maximum number of combinations that are tried, enough for eight hosts.
const MAX_TRIES: usize = 8192;
/// A smaller improvement counts as none.
const MAX_IMPROVED_RATIO: f64 = 1.0 - 1e-9;

/// The best circuits, beginning with some that are known.
pub(super) fn best(region: &Region, counts: &Counts, known: Circuits) -> Circuits {
    if counts.hosts > MAX_HOSTS {
        return known;
    }
    let order = busiest_first(counts);
    let mut trying = Trying {
        region,
        counts,
        pairs: pairs(&order),
        places: places(&order),
        free: vec![region.ports; counts.hosts],
        laid: Circuits::new(counts.hosts),
        best_ms: region.time_ms(counts, &known),
        best: known,
        tries: MAX_TRIES,
    };
    trying.deeper(0);
    trying.best
}

/// Returns the hosts, busiest first, so that an infeasible time is detected early.
fn busiest_first(counts: &Counts) -> Vec<usize> {
    let busy = |host: &usize| counts.totals[*host].into_iter().fold(0.0, f64::max);
    let mut order: Vec<_> = (0..counts.hosts).collect();
    order.sort_by(|a, b| busy(b).total_cmp(&busy(a)));
    order
}

/// All pairs of one host, then what is left of those of the next.
fn pairs(order: &[usize]) -> Vec<[usize; 2]> {
    let pairs = order.iter().enumerate();
    let pairs = pairs.flat_map(|(nth, &a)| order[nth + 1..].iter().map(move |&b| [a, b]));
    pairs.collect()
}

/// Returns the place of each host in an order.
fn places(order: &[usize]) -> Vec<usize> {
    let mut places = vec![0; order.len()];
    for (place, &host) in order.iter().enumerate() {
        places[host] = place;
    }
    places
}

struct Trying<'t> {
    region: &'t Region,
    counts: &'t Counts,
    pairs: Vec<[usize; 2]>,
    places: Vec<usize>,
    laid: Circuits,
    /// Ports, by host.
    free: Vec<usize>,
    best: Circuits,
    best_ms: f64,
    tries: usize,
}

impl Trying<'_> {
    /// Tries all numbers of circuits for a pair and those after it.
    fn deeper(&mut self, nth: usize) {
        let Some(&[a, b]) = self.pairs.get(nth) else {
            return self.keep();
        };
        let most = self.most(a, b).min(self.free[a]).min(self.free[b]);
        for count in (0..=most).rev() {
            self.join([a, b], count);
            let in_time = [a, b].iter().all(|&host| self.may_be_faster(host, nth + 1));
            if self.tries > 0 && in_time {
                self.tries -= 1;
                self.deeper(nth + 1);
            }
        }
    }

    fn join(&mut self, [a, b]: [usize; 2], count: usize) {
        let now = self.laid.between(a, b);
        for host in [a, b] {
            self.free[host] = self.free[host] + now - count;
        }
        self.laid.set(a, b, count);
    }

    fn keep(&mut self) {
        let time_ms = self.region.time_ms(self.counts, &self.laid);
        if time_ms < self.best_ms * MAX_IMPROVED_RATIO {
            self.best_ms = time_ms;
            self.best = self.laid.clone();
        }
    }

    /// Returns the bytes of one circuit in the time to be beaten.
    fn carried(&self) -> f64 {
        self.region.circuit_gbps * GBPS_TO_BYTES_PER_MS * self.best_ms * MAX_IMPROVED_RATIO
    }

    /// Returns the number of circuits that carry all traffic of a pair in that time; more are useless.
    fn most(&self, a: usize, b: usize) -> usize {
        let [sent, received] = self.counts.both_ways(a, b);
        (sent.max(received) / self.carried()).ceil() as usize
    }

    /// Whether a host could be done in less than the best time, if pairs from this one on had as many
    /// circuits as would suit it.
    fn may_be_faster(&self, host: usize, from: usize) -> bool {
        let switched =
            self.region.switched_gbps * GBPS_TO_BYTES_PER_MS * self.best_ms * MAX_IMPROVED_RATIO;
        (0..2).all(|way| {
            let laid: f64 = (0..self.counts.hosts)
                .map(|other| self.by_circuits(host, other, way))
                .sum();
            let open = self.open(host, from).map(|other| Open {
                bytes: self.counts.both_ways(host, other)[way],
                room: self.free[other],
            });
            let most = laid + most_carried(open, self.free[host], self.carried());
            self.counts.totals[host][way] <= switched + most
        })
    }

    /// Returns the bytes that the circuits between two hosts carry in one direction.
    fn by_circuits(&self, host: usize, other: usize, way: usize) -> f64 {
        let most = self.laid.between(host, other) as f64 * self.carried();
        self.counts.both_ways(host, other)[way].min(most)
    }

    /// Those with which a host may still have circuits, when pairs from this one on are open.
    fn open(&self, host: usize, from: usize) -> impl Iterator<Item = usize> {
        let place = |[a, b]: [usize; 2]| [self.places[a], self.places[b]];
        let next = self.pairs.get(from).map(|&ends| place(ends));
        (0..self.counts.hosts).filter(move |&other| {
            let [a, b] = place([host, other]);
            a != b && next.is_some_and(|next| [a.min(b), a.max(b)] >= next)
        })
    }
}

/// Traffic to a host with this number of free ports.
struct Open {
    bytes: f64,
    room: usize,
}

/// Returns an upper bound on the bytes that this number of circuits carries: full ones first, then those with the most
/// remaining traffic.
fn most_carried(open: impl Iterator<Item = Open>, circuits: usize, each: f64) -> f64 {
    let (mut full, mut rests) = (0, Vec::new());
    for Open { bytes, room } in open {
        let whole = ((bytes / each) as usize).min(room);
        full += whole;
        if whole < room {
            rests.push(bytes - whole as f64 * each);
        }
    }
    rests.sort_by(|a, b| b.total_cmp(a));
    let left = circuits.saturating_sub(full);
    full.min(circuits) as f64 * each + rests.iter().take(left).sum::<f64>()
}
