//! Patch panels and optical switches: which cable runs through which, and over which of its ports.
//!
//! A cable takes a port of each of its hosts on the same panel. Where a host has one port on each,
//! that is the colouring of edges: what finds no panel pushes others from theirs, which look for
//! another in turn, and what has found none in the end is not laid.

use std::collections::BTreeSet;

use super::limits::{Limits, Panel};
use super::wiring::{Pair, Wiring, pair};
use crate::dice::Dice;

/// A cable on a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patch {
    pub cable: Pair,
    pub panel: usize,
    /// Of the panel, in the order of the cable's hosts. Ports are numbered host by host.
    pub ports: [usize; 2],
}

/// Times each cable may be pushed from its panel, on average.
const PUSHES: usize = 400;

/// Finds panels for all cables, takes away those that have none, and joins what then has ports left
/// on the same panel. With the cables of `rings` it begins.
pub(super) fn patch(
    wiring: &mut Wiring,
    rings: &[Vec<u32>],
    limits: &Limits,
    dice: &mut Dice,
) -> Vec<Patch> {
    if limits.panels.is_empty() {
        return Vec::new();
    }
    let mut patching = Patching::new(&limits.panels, wiring.hosts());
    let mut waiting = patching.begin(wiring, rings);
    for _ in 0..PUSHES * wiring.cables() {
        let Some(cable) = waiting.pop() else { break };
        let pushed = patching.push_in(cable, dice);
        waiting.extend(pushed);
    }
    for [a, b] in waiting {
        wiring.part(a, b);
    }
    patching.join_rest(wiring, limits);
    patching.numbered()
}

struct Patching<'p> {
    panels: &'p [Panel],
    /// By panel and host, the others that its ports there lead to.
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
        used < self.panels[panel].ports[host as usize]
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

    /// The cables of a ring take turns on two panels; the others wait.
    fn begin(&mut self, wiring: &Wiring, rings: &[Vec<u32>]) -> Vec<Pair> {
        let mut waiting: BTreeSet<_> = wiring.pairs().into_iter().collect();
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

    /// On a panel that has room, or else on any that both hosts are on; those that had to make room
    /// come back.
    fn push_in(&mut self, cable: Pair, dice: &mut Dice) -> Vec<Pair> {
        let shared = |&panel: &usize| {
            let ports = &self.panels[panel].ports;
            cable.iter().all(|&end| ports[end as usize] > 0)
        };
        let shared: Vec<_> = (0..self.panels.len()).filter(shared).collect();
        let free = shared.iter().find(|&&panel| self.fits(panel, cable));
        let any = shared[dice.below(shared.len())];
        let panel = free.copied().unwrap_or(any);
        let mut pushed = Vec::new();
        for end in cable {
            if !self.has_port(panel, end) {
                let others = &self.on[panel][end as usize];
                let other = pair(end, others[dice.below(others.len())]);
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

    fn numbered(&self) -> Vec<Patch> {
        let mut patches = Vec::new();
        for (panel, hosts) in self.on.iter().enumerate() {
            let of_panel = &self.panels[panel].ports;
            let port = |host: u32, other: u32| {
                let before: usize = of_panel[..host as usize].iter().sum();
                let place = hosts[host as usize].iter().position(|&it| it == other);
                before + place.unwrap_or(0)
            };
            for (a, others) in (0..).zip(hosts) {
                for &b in others.iter().filter(|&&b| a < b) {
                    patches.push(Patch {
                        cable: [a, b],
                        panel,
                        ports: [port(a, b), port(b, a)],
                    });
                }
            }
        }
        patches
    }
}
