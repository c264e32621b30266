//! Ports that are left over, and parts that are not connected.

use reweave_common::split_mix::SplitMix64;

use super::limits::Limits;
use super::wiring::{Pair, Wiring};

/// Attempts for each port that is left.
const ATTEMPTS_PER_PORT: usize = 32;

/// Takes away what may not be, and what hosts have no ports for.
pub(super) fn trim(wiring: &mut Wiring, limits: &Limits) {
    for [a, b] in wiring.pairs() {
        if !limits.allow(a, b) {
            wiring.part(a, b);
        }
    }
    spare_fibres(wiring, limits);
    let surplus = |wiring: &Wiring, host: u32| {
        wiring.degree(host) as i64 - limits.ports[host as usize] as i64
    };
    for host in 0..wiring.hosts() as u32 {
        while surplus(wiring, host) > 0 {
            let neighbours = wiring.neighbours(host).iter().copied();
            let fullest = neighbours.max_by_key(|&it| surplus(wiring, it));
            fullest.into_iter().for_each(|it| wiring.part(host, it));
        }
    }
}

/// Takes away cables between blocks that are more than there are fibres.
pub(super) fn spare_fibres(wiring: &mut Wiring, limits: &Limits) {
    let blocks = limits.blocks.as_ref();
    for [a, b] in blocks.map_or(Vec::new(), |blocks| blocks.surplus(wiring)) {
        wiring.part(a, b);
    }
}

/// Joins hosts with free ports at random, as far as possible.
pub(super) fn fill(wiring: &mut Wiring, limits: &Limits, rng: &mut SplitMix64) {
    let mut idle = 0;
    loop {
        let free: Vec<_> = free(wiring, limits).collect();
        if free.is_empty() || idle > ATTEMPTS_PER_PORT * free.len() {
            return;
        }
        let [a, b] = [0, 1].map(|_| free[rng.below(free.len())]);
        let joined = limits.have_room(wiring, a, b) && wiring.join(a, b);
        if joined || reroute(wiring, limits, rng, [a, b]) {
            idle = 0;
        }
        idle += 1;
    }
}

/// Hosts with a port left.
pub(super) fn free<'w>(wiring: &'w Wiring, limits: &'w Limits) -> impl Iterator<Item = u32> + 'w {
    let ports = (0..).zip(&limits.ports);
    let free = ports.filter(|(host, ports): &(u32, &usize)| wiring.degree(*host) < **ports);
    free.map(|(host, _)| host)
}

/// Two ports that are left and cannot be joined break a cable in two: a-c and d-b for c-d. One host
/// alone needs two ports for that.
fn reroute(wiring: &mut Wiring, limits: &Limits, rng: &mut SplitMix64, [a, b]: Pair) -> bool {
    if a == b && wiring.degree(a) + 2 > limits.ports[a as usize] {
        return false;
    }
    let c = rng.below(wiring.hosts()) as u32;
    if wiring.degree(c) == 0 {
        return false;
    }
    let d = wiring.neighbours(c)[rng.below(wiring.degree(c))];
    if !limits.have_room(wiring, a, c) || !limits.have_room(wiring, b, d) {
        return false;
    }
    wiring.part(c, d);
    wiring.join(a, c);
    wiring.join(b, d);
    true
}

/// Joins parts that are apart, by crossing over a cable of each, or over ports that are left.
pub(super) fn connect(wiring: &mut Wiring, limits: &Limits, rng: &mut SplitMix64) {
    for _ in 0..ATTEMPTS_PER_PORT * wiring.hosts() {
        let parts = wiring.parts();
        let [first, second, ..] = &parts[..] else {
            return;
        };
        let one = |part: &Vec<u32>, rng: &mut SplitMix64| part[rng.below(part.len())];
        let [a, c] = [one(first, rng), one(second, rng)];
        let has_port = |host: u32| wiring.degree(host) < limits.ports[host as usize];
        if has_port(a) && has_port(c) && limits.have_room(wiring, a, c) {
            wiring.join(a, c);
            continue;
        }
        let (of_a, of_c) = (wiring.degree(a), wiring.degree(c));
        if of_a == 0 || of_c == 0 {
            continue;
        }
        let b = wiring.neighbours(a)[rng.below(of_a)];
        let d = wiring.neighbours(c)[rng.below(of_c)];
        if limits.have_room(wiring, a, c) && limits.have_room(wiring, b, d) {
            wiring.part(a, b);
            wiring.part(c, d);
            wiring.join(a, c);
            wiring.join(b, d);
        }
    }
}
