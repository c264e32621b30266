//! Random rings through all hosts.
//!
//! A few of them on top of each other are a random regular graph, in which hosts are about as near to
//! each other as they can be; and as each is a ring, an all-reduce fills every cable of all of them.

use reweave_common::split_mix::SplitMix64;

use super::limits::Limits;
use super::reach::Reach;
use super::wiring::Wiring;
use crate::crew::InTime;

/// Attempts at repairing a ring, for each of its hosts.
const REPAIRS_PER_HOST: usize = 64;

/// Returns a ring through these hosts, of allowed cables that are not in the wiring yet. None if none was found.
pub(super) fn random(
    members: &[u32],
    wiring: &Wiring,
    limits: &Limits,
    rng: &mut SplitMix64,
) -> Option<Vec<u32>> {
    let mut ring = members.to_vec();
    rng.shuffle(&mut ring);
    mend(ring, wiring, limits, rng)
}

/// Turns parts of a ring round until all its cables are allowed and new.
pub(super) fn mend(
    mut ring: Vec<u32>,
    wiring: &Wiring,
    limits: &Limits,
    rng: &mut SplitMix64,
) -> Option<Vec<u32>> {
    let len = ring.len();
    if len < 3 {
        return None;
    }
    let bad = |a: u32, b: u32| !limits.allow(a, b) || wiring.joins(a, b);
    let faulty = |ring: &[u32]| -> Vec<usize> {
        let at = 0..len;
        at.filter(|&at| bad(ring[at], ring[(at + 1) % len]))
            .collect()
    };
    let mut faults = faulty(&ring);
    for _ in 0..REPAIRS_PER_HOST * len {
        let Some(&fault) = faults.get(rng.below(faults.len().max(1))) else {
            return Some(ring);
        };
        let other = rng.below(len);
        let [low, high] = [fault.min(other), fault.max(other)];
        if low == high || (high + 1) % len == low || low + 1 == high {
            continue;
        }
        let [a, b, c, d] = [low, low + 1, high, (high + 1) % len].map(|at| ring[at]);
        let count = |pairs: [(u32, u32); 2]| pairs.iter().filter(|(a, b)| bad(*a, *b)).count();
        if count([(a, c), (b, d)]) <= count([(a, b), (c, d)]) {
            ring[low + 1..=high].reverse();
            faults = faulty(&ring);
        }
    }
    None
}

pub(super) fn lay(wiring: &mut Wiring, ring: &[u32]) {
    for nth in 0..ring.len() {
        wiring.join(ring[nth], ring[(nth + 1) % ring.len()]);
    }
}

/// Brings hosts nearer to each other: two cables of a ring are crossed over whenever that makes
/// fewer hops. `work` is how many words may be looked at.
pub(super) fn shorten(
    wiring: &mut Wiring,
    rings: &mut [Vec<u32>],
    limits: &Limits,
    rng: &mut SplitMix64,
    work: usize,
    in_time: InTime<'_>,
) {
    let mut reach = Reach::new(wiring.hosts());
    let Some(mut score) = reach.all_hops(wiring, u64::MAX) else {
        return;
    };
    if rings.is_empty() {
        return;
    }
    let each = wiring.cables() * 2 * wiring.hosts().div_ceil(64) * TYPICAL_DIAMETER_HOPS;
    for _ in 0..work / each.max(1) {
        if !in_time() {
            return;
        }
        let nth = rng.below(rings.len());
        let Some(crossing) = Crossing::at_random(&rings[nth], wiring, limits, rng) else {
            continue;
        };
        crossing.make(wiring, &mut rings[nth]);
        match reach.all_hops(wiring, score) {
            Some(hops) => score = hops,
            None => crossing.undo(wiring, &mut rings[nth]),
        }
    }
}

/// Typical number of hops that reach all hosts.
const TYPICAL_DIAMETER_HOPS: usize = 5;

/// Two cables a-b and c-d of a ring that become a-c and b-d.
struct Crossing {
    low: usize,
    high: usize,
    ends: [u32; 4],
}

impl Crossing {
    fn at_random(
        ring: &[u32],
        wiring: &Wiring,
        limits: &Limits,
        rng: &mut SplitMix64,
    ) -> Option<Self> {
        let len = ring.len();
        let [x, y] = [0, 1].map(|_| rng.below(len));
        let [low, high] = [x.min(y), x.max(y)];
        if high - low < 2 || (high + 1) % len == low {
            return None;
        }
        let ends = [low, low + 1, high, (high + 1) % len].map(|at| ring[at]);
        let [a, b, c, d] = ends;
        let new = |a, b| limits.allow(a, b) && !wiring.joins(a, b);
        (new(a, c) && new(b, d)).then_some(Self { low, high, ends })
    }

    fn make(&self, wiring: &mut Wiring, ring: &mut [u32]) {
        let [a, b, c, d] = self.ends;
        wiring.part(a, b);
        wiring.part(c, d);
        wiring.join(a, c);
        wiring.join(b, d);
        ring[self.low + 1..=self.high].reverse();
    }

    fn undo(&self, wiring: &mut Wiring, ring: &mut [u32]) {
        let [a, b, c, d] = self.ends;
        wiring.part(a, c);
        wiring.part(b, d);
        wiring.join(a, b);
        wiring.join(c, d);
        ring[self.low + 1..=self.high].reverse();
    }
}
