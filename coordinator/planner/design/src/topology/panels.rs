//! Patch panels and optical switches: which cable runs through which, and over which of its ports.
//!
//! A cable takes a port of each of its hosts on the same panel. Where a host has one port on each,
//! that is the colouring of edges: what finds no panel pushes others from theirs, which look for
//! another in turn, and what has found none in the end is not laid.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::split_mix::SplitMix64;

use super::limits::{Limits, Panel};
use super::wiring::{Pair, Wiring, pair};

/// A cable on a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    pub cable: Pair,
    pub panel: usize,
    /// Ports of the panel, in the order of the cable's hosts.
    pub ports: [usize; 2],
}

impl Patch {
    /// Renumbers hosts. Cables with a removed host are dropped.
    pub(super) fn of_hosts(all: &[Self], number: impl Fn(Pair) -> Option<Pair>) -> Vec<Self> {
        let renamed = all.iter().filter_map(|patch| {
            Some(Self {
                cable: number(patch.cable)?,
                ..*patch
            })
        });
        renamed.collect()
    }
}

/// Times each cable may be pushed from its panel, on average.
const PUSHES_PER_CABLE: usize = 400;

/// Assigns panels to all cables, removes cables without one, and joins ports that remain on the same panel. Starts with
/// existing cables and those of `rings`.
pub(super) fn patch(
    wiring: &mut Wiring,
    rings: &[Vec<u32>],
    limits: &Limits,
    rng: &mut SplitMix64,
) -> Vec<Patch> {
    if limits.panels.is_empty() {
        return Vec::new();
    }
    let mut patching = Patching::new(&limits.panels, wiring.hosts());
    let mut waiting = patching.begin(wiring, rings, &limits.laid);
    for _ in 0..PUSHES_PER_CABLE * wiring.cables() {
        let Some(cable) = waiting.pop() else { break };
        let pushed = patching.push_in(cable, rng);
        waiting.extend(pushed);
    }
    for [a, b] in waiting {
        wiring.part(a, b);
    }
    patching.join_rest(wiring, limits);
    patching.numbered(&limits.laid)
}

struct Patching<'p> {
    panels: &'p [Panel],
    /// By panel and host: the hosts at the other ends of its ports.
    on: Vec<Vec<Vec<u32>>>,
}

impl<'p> Patching<'p> {
    fn new(panels: &'p [Panel], hosts: usize) -> Self {
        Self {
            panels,
            on: vec![vec![Vec::new(); hosts]; panels.len()],
        }
    }

    fn has_port(&self, panel: usize, host: u32) -> bool {
        let used = self.on[panel][host as usize].len();
        used < self.panels[panel].ports[host as usize].len()
    }

    fn fits(&self, panel: usize, [a, b]: Pair) -> bool {
        self.has_port(panel, a) && self.has_port(panel, b)
    }

    fn put(&mut self, panel: usize, [a, b]: Pair) {
        self.on[panel][a as usize].push(b);
        self.on[panel][b as usize].push(a);
    }

    fn pull(&mut self, panel: usize, [a, b]: Pair) {
        self.on[panel][a as usize].retain(|&it| it != b);
        self.on[panel][b as usize].retain(|&it| it != a);
    }

    /// Places existing cables, then those of rings alternating between two panels. Returns the other cables.
    fn begin(&mut self, wiring: &Wiring, rings: &[Vec<u32>], laid: &[Patch]) -> Vec<Pair> {
        let mut waiting: BTreeSet<_> = wiring.pairs().into_iter().collect();
        for &Patch { cable, panel, .. } in laid {
            if self.fits(panel, cable) && waiting.remove(&cable) {
                self.put(panel, cable);
            }
        }
        for (nth, ring) in rings.iter().enumerate() {
            for at in 0..ring.len() {
                let cable = pair(ring[at], ring[(at + 1) % ring.len()]);
                let panel = (2 * nth + at % 2) % self.panels.len();
                if waiting.contains(&cable) && self.fits(panel, cable) {
                    self.put(panel, cable);
                    waiting.remove(&cable);
                }
            }
        }
        waiting.into_iter().collect()
    }

    /// Places a cable on a panel with room, or else on any panel of both hosts. Returns the displaced cables.
    fn push_in(&mut self, cable: Pair, rng: &mut SplitMix64) -> Vec<Pair> {
        let shared = |&panel: &usize| cable.iter().all(|&end| self.panels[panel].holds(end));
        let shared: Vec<_> = (0..self.panels.len()).filter(shared).collect();
        let free = shared.iter().find(|&&panel| self.fits(panel, cable));
        let any = shared[rng.below(shared.len())];
        let panel = free.copied().unwrap_or(any);
        let mut pushed = Vec::new();
        for end in cable {
            if !self.has_port(panel, end) {
                let others = &self.on[panel][end as usize];
                let other = pair(end, others[rng.below(others.len())]);
                self.pull(panel, other);
                pushed.push(other);
            }
        }
        self.put(panel, cable);
        pushed
    }

    fn join_rest(&mut self, wiring: &mut Wiring, limits: &Limits) {
        for panel in 0..self.panels.len() {
            let hosts = 0..wiring.hosts() as u32;
            let free: Vec<_> = hosts.filter(|&host| self.has_port(panel, host)).collect();
            for (nth, &a) in free.iter().enumerate() {
                for &b in &free[nth + 1..] {
                    let has_port = |host: u32| wiring.degree(host) < limits.ports[host as usize];
                    let fits = self.fits(panel, [a, b]) && has_port(a) && has_port(b);
                    if fits && limits.have_room(wiring, a, b) && wiring.join(a, b) {
                        self.put(panel, [a, b]);
                    }
                }
            }
        }
    }

    /// Assigns ports. Existing cables keep theirs, and new ones take free ports.
    fn numbered(&self, laid: &[Patch]) -> Vec<Patch> {
        let stays = |patch: &&Patch| {
            let [a, b] = patch.cable;
            self.on[patch.panel][a as usize].contains(&b)
        };
        let kept = laid.iter().filter(stays);
        let kept: BTreeMap<_, _> = kept.map(|it| ((it.panel, it.cable), it.ports)).collect();
        let of_kept = kept
            .iter()
            .flat_map(|(&(panel, _), ports)| ports.map(|it| (panel, it)));
        let mut taken: BTreeSet<_> = of_kept.collect();
        let mut free = |panel: usize, host: u32| {
            let mut own = self.panels[panel].ports[host as usize].iter().copied();
            own.find(|&port| taken.insert((panel, port)))
        };
        self.cables()
            .filter_map(|(panel, cable)| {
                let ports = match kept.get(&(panel, cable)) {
                    Some(&ports) => ports,
                    None => [free(panel, cable[0])?, free(panel, cable[1])?],
                };
                Some(Patch {
                    cable,
                    panel,
                    ports,
                })
            })
            .collect()
    }

    /// Panel by panel.
    fn cables(&self) -> impl Iterator<Item = (usize, Pair)> {
        self.on.iter().enumerate().flat_map(|(panel, hosts)| {
            let of_host = move |(a, others): (u32, &Vec<u32>)| {
                let later = others.iter().filter(move |&&b| a < b);
                later.map(move |&b| (panel, [a, b])).collect::<Vec<_>>()
            };
            (0..).zip(hosts).flat_map(of_host)
        })
    }
}
