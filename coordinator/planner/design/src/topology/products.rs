//! Small wirings of minimal distance, and larger ones built from them.
//!
//! The product of two wirings has a host for each pair of their hosts, and the hops of both add up: it is as regular as
//! they are, and needs the ports of both. The generalized Kautz and de Bruijn graphs join each host to hosts given by a
//! formula; at the right sizes they are iterated line graphs of complete graphs.

use super::distances::Distances;
use super::wiring::{Pair, Wiring};

/// A small wiring that no other of its size and ports beats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Factor {
    pub(super) name: String,
    pub(super) wiring: Wiring,
}

/// Returns the factors whose product has this number of hosts, with at most this number of ports and the fewest hops.
/// None if there are none.
pub(super) fn factors(hosts: usize, ports: usize) -> Option<Vec<Factor>> {
    let mut best = None;
    search(hosts, ports, &mut Vec::new(), &mut best);
    best.map(|(_, factors)| factors)
}

type Best = Option<(f64, Vec<Factor>)>;

fn search(hosts: usize, ports: usize, chosen: &mut Vec<Factor>, best: &mut Best) {
    if hosts == 1 {
        let hops: f64 = chosen.iter().map(|it| hops_to_any(&it.wiring)).sum();
        if chosen.len() > 1 && best.as_ref().is_none_or(|(known, _)| hops < *known - 1e-9) {
            *best = Some((hops, chosen.clone()));
        }
        return;
    }
    let largest = chosen.last().map_or(hosts, |it| it.wiring.hosts());
    for size in (2..=largest.min(hosts)).filter(|size| hosts.is_multiple_of(*size)) {
        for factor in of_size(size, ports) {
            let left = ports - factor.wiring.degrees()[1];
            chosen.push(factor);
            search(hosts / size, left, chosen, best);
            chosen.pop();
        }
    }
}

/// On average, to any host, oneself too.
fn hops_to_any(wiring: &Wiring) -> f64 {
    let hosts = wiring.hosts() as f64;
    Distances::of(wiring).mean() * (hosts - 1.0) / hosts
}

/// Longer rings bring no host near.
const MAX_RING_HOSTS: usize = 32;

fn of_size(hosts: usize, ports: usize) -> Vec<Factor> {
    let named = |name: String, pairs: Vec<Pair>| Factor {
        name,
        wiring: Wiring::of(hosts, pairs),
    };
    let n = hosts as u32;
    let mut known = Vec::new();
    if hosts <= ports + 1 {
        let all = (0..n).flat_map(|a| (a + 1..n).map(move |b| [a, b]));
        known.push(named(format!("K{hosts}"), all.collect()));
    }
    if hosts == 10 && ports >= 3 {
        known.push(named("Petersen's".to_owned(), petersen()));
    }
    if hosts > 4 && hosts.is_multiple_of(2) && hosts / 2 <= ports {
        let half = n / 2;
        let across = (0..half).flat_map(|a| (half..n).map(move |b| [a, b]));
        known.push(named(format!("K{half},{half}"), across.collect()));
    }
    if (4..=MAX_RING_HOSTS).contains(&hosts) && ports >= 2 {
        let ring = (0..n).map(|a| [a, (a + 1) % n]);
        known.push(named(format!("C{hosts}"), ring.collect()));
    }
    known
}

fn petersen() -> Vec<Pair> {
    let of = |a: u32| [[a, (a + 1) % 5], [a, a + 5], [a + 5, (a + 2) % 5 + 5]];
    (0..5).flat_map(of).collect()
}

pub(super) fn product(factors: &[Factor]) -> Wiring {
    let mut whole = Wiring::new(1);
    for factor in factors {
        let (outer, inner) = (whole.hosts() as u32, factor.wiring.hosts() as u32);
        let place = |a: u32, b: u32| a * inner + b;
        let mut larger = Wiring::new((outer * inner) as usize);
        for [a, b] in whole.pairs() {
            for at in 0..inner {
                larger.join(place(a, at), place(b, at));
            }
        }
        for [a, b] in factor.wiring.pairs() {
            for at in 0..outer {
                larger.join(place(at, a), place(at, b));
            }
        }
        whole = larger;
    }
    whole
}

/// Joins each host to `-fan * host - 1`, `-2`, ... modulo the number of hosts.
pub(super) fn kautz(hosts: usize, fan: usize) -> Wiring {
    arithmetic(hosts, fan, |host, nth| {
        2 * hosts * fan - host * fan - nth - 1
    })
}

/// Joins each host to `fan * host`, `+1`, ... modulo the number of hosts.
pub(super) fn de_bruijn(hosts: usize, fan: usize) -> Wiring {
    arithmetic(hosts, fan, |host, nth| host * fan + nth)
}

fn arithmetic(hosts: usize, fan: usize, next: impl Fn(usize, usize) -> usize) -> Wiring {
    let mut wiring = Wiring::new(hosts);
    for host in 0..hosts {
        for nth in 0..fan {
            wiring.join(host as u32, (next(host, nth) % hosts) as u32);
        }
    }
    wiring
}
