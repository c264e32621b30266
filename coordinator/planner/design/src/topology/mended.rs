//! Ports whose cables led to what has failed, joined to each other; all other cables stay.

use std::collections::BTreeSet;

use super::demand::Demand;
use super::distances::Distances;
use super::families::{Design, is_whole};
use super::fill;
use super::limits::Limits;
use super::matching;
use super::panels::Patch;
use super::wiring::{Pair, pair};

/// Returns a design in which the remaining ports are joined again; none if nothing can be joined. `limits` are those
/// after the failures; hosts keep their numbers.
pub(super) fn mended(
    before: &Design,
    left: &Design,
    limits: &Limits,
    dead: &BTreeSet<u32>,
    demand: &Demand,
) -> Option<Design> {
    let kept = left.patches.iter();
    let kept = kept.flat_map(|patch| patch.ports.map(|it| (patch.panel, it)));
    let taken: BTreeSet<_> = kept.collect();
    let mending = || Mending {
        limits,
        dead,
        taken: taken.clone(),
        design: left.clone(),
    };
    let along_rings = mending().closed(&before.rings, demand);
    let freely = mending().closed(&[], demand);
    let more = freely.wiring.cables() > along_rings.wiring.cables();
    let mut design = if more { freely } else { along_rings };
    design.altered = left.altered.besides(&left.wiring, &design.wiring);
    (design.wiring.cables() > left.wiring.cables()).then_some(design)
}

struct Mending<'m> {
    limits: &'m Limits,
    dead: &'m BTreeSet<u32>,
    /// Ports of panels that are in use.
    taken: BTreeSet<(usize, usize)>,
    design: Design,
}

impl Mending<'_> {
    /// First along rings, and then as many as can be.
    fn closed(mut self, rings: &[Vec<u32>], demand: &Demand) -> Design {
        self.close_rings(rings);
        loop {
            let cables = self.design.wiring.cables();
            for [a, b] in self.matched(demand) {
                if self.fits(a, b) {
                    self.join(a, b);
                }
            }
            if self.design.wiring.cables() == cables {
                return self.design;
            }
        }
    }

    /// Closes rings without a failed host by joining its neighbours.
    fn close_rings(&mut self, rings: &[Vec<u32>]) {
        let mut whole = Vec::new();
        for ring in rings {
            let alive = ring
                .iter()
                .copied()
                .filter(|host| !self.dead.contains(host));
            let ring: Vec<_> = alive.collect();
            for (nth, &host) in ring.iter().enumerate() {
                let next = ring[(nth + 1) % ring.len()];
                if self.fits(host, next) {
                    self.join(host, next);
                }
            }
            if ring.len() > 2 && is_whole(&ring, &self.design.wiring) {
                whole.push(ring);
            }
        }
        self.design.rings = whole;
    }

    fn fits(&self, a: u32, b: u32) -> bool {
        let has_port = |host: u32| {
            let ports = self.limits.ports[host as usize];
            self.design.wiring.degree(host) < ports && !self.dead.contains(&host)
        };
        has_port(a)
            && has_port(b)
            && self.limits.have_room(&self.design.wiring, a, b)
            && (self.limits.panels.is_empty() || self.patch(a, b).is_some())
    }

    fn join(&mut self, a: u32, b: u32) {
        if let Some(patch) = self.patch(a, b) {
            self.taken
                .extend(patch.ports.map(|port| (patch.panel, port)));
            self.design.patches.push(patch);
        }
        self.design.wiring.join(a, b);
    }

    /// On the first panel with a port for both.
    fn patch(&self, a: u32, b: u32) -> Option<Patch> {
        let cable = pair(a, b);
        (0..self.limits.panels.len()).find_map(|panel| {
            let [first, second] = cable.map(|host| self.port(panel, host));
            Some(Patch {
                cable,
                panel,
                ports: [first?, second?],
            })
        })
    }

    fn port(&self, panel: usize, host: u32) -> Option<usize> {
        let mut own = self.limits.panels[panel].ports[host as usize]
            .iter()
            .copied();
        own.find(|&port| !self.taken.contains(&(panel, port)))
    }

    /// Returns as many pairs as can be joined at once, with the most traffic or else the greatest distance.
    fn matched(&self, demand: &Demand) -> Vec<Pair> {
        let wiring = &self.design.wiring;
        let free: Vec<_> = fill::free(wiring, self.limits).collect();
        let pairs = free.iter().enumerate();
        let pairs = pairs.flat_map(|(nth, &a)| free[nth + 1..].iter().map(move |&b| [a, b]));
        let fitting: Vec<_> = pairs.filter(|&[a, b]| self.fits(a, b)).collect();
        if fitting.is_empty() {
            return Vec::new();
        }
        let (sent, distances) = (matching::weights(demand), Distances::of(wiring));
        let most = sent.values().copied().fold(1.0, f64::max);
        let weights = fitting.into_iter().map(|[a, b]| {
            let bytes = sent.get(&[a, b]).copied().unwrap_or(0.0);
            let hops = distances.hops(a, b).unwrap_or(u32::MAX);
            let hops = f64::from(hops) / wiring.hosts() as f64;
            let merit = 1.0 + BYTES_SCORE * bytes / most + HOPS_SCORE * hops.min(1.0);
            ([a, b], merit)
        });
        matching::heaviest(&weights.collect(), wiring, self.limits)
    }
}

/// Weight of bytes, compared with 1 for another joined pair.
const BYTES_SCORE: f64 = 0.1;
const HOPS_SCORE: f64 = 0.01;
