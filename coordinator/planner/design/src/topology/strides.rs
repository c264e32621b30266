//! Rings by strides: each host is wired to the hosts at this distance, in both directions.
//!
//! A stride without a common divisor with the number of hosts makes one ring through all of them, and the cost of an
//! all-reduce on a ring is independent of the order of the hosts. So the strides can be chosen for other traffic: such
//! that all distances are small.

use super::wiring::{Pair, pair};

/// Returns the strides whose rings visit all hosts. A stride and its complement name the same cables, so only the
/// shorter is returned.
pub fn totient(hosts: usize) -> Vec<usize> {
    let shorter = 1..=hosts / 2;
    shorter.filter(|&stride| gcd(stride, hosts) == 1).collect()
}

/// Returns `count` strides that visit all hosts, in geometric steps so that distances are small; fewer if there are no
/// more. No stride appears twice, in either direction.
pub fn select(hosts: usize, count: usize) -> Vec<usize> {
    let mut free = totient(hosts);
    let mut chosen = Vec::new();
    let ratio = libm::pow(hosts as f64, 1.0 / count.max(1) as f64);
    let mut wanted = 1.0;
    while chosen.len() < count && !free.is_empty() {
        // A rounding error of libm must not exclude a stride that fits exactly.
        let above = free.iter().position(|&it| it as f64 >= wanted - 1e-9);
        chosen.push(free.remove(above.unwrap_or(free.len() - 1)));
        wanted *= ratio;
    }
    chosen
}

/// Returns `count` strides with the fewest hops on average. Strides are replaced by better ones until there are none,
/// or `limit` sets have been tried.
pub fn best(hosts: usize, count: usize, limit: usize) -> Vec<usize> {
    let all = totient(hosts);
    let mut best = select(hosts, count);
    let mut score = hops(hosts, &best);
    let mut looked = 0;
    let mut improved = true;
    while improved && looked < limit {
        improved = false;
        for nth in (0..best.len()).rev() {
            for &stride in all.iter().filter(|stride| **stride > 1) {
                let mut other = best.clone();
                other[nth] = stride;
                looked += 1;
                if looked > limit {
                    return best;
                }
                if best.contains(&stride) {
                    continue;
                }
                let hops = hops(hosts, &other);
                if hops < score {
                    (best, score, improved) = (other, hops, true);
                }
            }
        }
    }
    best
}

/// Returns the sum of hops from one host to all others, which is equal for all hosts.
fn hops(hosts: usize, strides: &[usize]) -> u64 {
    let steps = steps(hosts, strides);
    let counts = coins(hosts, &steps);
    counts.into_iter().map(u64::from).sum()
}

/// All that one hop can add, modulo the number of hosts.
pub fn steps(hosts: usize, strides: &[usize]) -> Vec<usize> {
    let both = strides.iter().flat_map(|&stride| [stride, hosts - stride]);
    let mut steps: Vec<_> = both.filter(|&step| step % hosts != 0).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// The change problem: the fewest steps that add up to each distance around the hosts.
pub fn coins(hosts: usize, steps: &[usize]) -> Vec<u32> {
    let mut counts = vec![u32::MAX; hosts];
    counts[0] = 0;
    let mut line = vec![0];
    let mut at = 0;
    while let Some(&distance) = line.get(at) {
        at += 1;
        for step in steps {
            let next = distance + step;
            let next = if next < hosts { next } else { next - hosts };
            if counts[next] == u32::MAX {
                counts[next] = counts[distance] + 1;
                line.push(next);
            }
        }
    }
    counts
}

/// The cables of these strides among these hosts.
pub fn pairs(members: &[u32], strides: &[usize]) -> Vec<Pair> {
    let rings = strides.iter().flat_map(|&stride| {
        let next = move |nth: usize| members[(nth + stride) % members.len()];
        (0..members.len()).map(move |nth| pair(members[nth], next(nth)))
    });
    let mut pairs: Vec<_> = rings.filter(|[a, b]| a != b).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The members in the order in which a stride meets them.
pub fn ring(members: &[u32], stride: usize) -> Vec<u32> {
    let len = members.len();
    (0..len).map(|nth| members[nth * stride % len]).collect()
}

pub(super) fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
