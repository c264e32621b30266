//! Who sees how many probes come by, and how many of them get lost.

use reweave_common::fabric::Role;

use super::localise::Probe;
use crate::paths::{Atlas, HopIndex};

/// Of whom probes speak.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// Hosts are below this.
    pub hosts: usize,
    /// Who sends over each hop, and who hears it, where these are switches.
    pub switches: Vec<[Option<usize>; 2]>,
    /// The same where these are hosts that forward for others.
    pub relays: Vec<[Option<usize>; 2]>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Votes {
    pub(super) sent: u64,
    pub(super) lost: u64,
}

/// What each suspect has to do with.
pub(super) struct Cast {
    pub(super) hosts: Vec<Votes>,
    pub(super) switches: Vec<Votes>,
    pub(super) hops: Vec<Votes>,
}

impl Ground {
    pub fn of(atlas: &Atlas<'_>) -> Self {
        let fabric = atlas.fabric;
        let ends = |role: Role| {
            let of_role = move |node| (fabric.node(node).role == role).then(|| node.index());
            let ends = (0..atlas.hops()).map(move |index| {
                let hop = atlas.hop(index);
                [hop.from, atlas.far(hop)].map(of_role)
            });
            ends.collect()
        };
        Self {
            hosts: fabric.nodes().len(),
            switches: ends(Role::Switch),
            relays: ends(Role::Relay),
        }
    }

    pub(super) fn is_at(&self, hop: HopIndex, switch: usize) -> bool {
        self.switches[hop].contains(&Some(switch))
    }

    /// Whether it came in and went out again: what begins or ends there knows one port.
    pub(super) fn passes(&self, probe: &Probe, switch: usize) -> bool {
        passes(&self.switches, probe, switch)
    }

    /// Whether it sent or answers it, or handed it on.
    pub(super) fn has_to_do_with(&self, probe: &Probe, host: usize) -> bool {
        probe.hosts.contains(&Some(host)) || passes(&self.relays, probe, host)
    }

    /// The first hop of each of its links.
    pub(super) fn links_of(&self, switch: usize) -> Vec<HopIndex> {
        let firsts = (0..self.switches.len()).step_by(2);
        firsts.filter(|&hop| self.is_at(hop, switch)).collect()
    }

    pub(super) fn cast(&self, probes: &[&Probe]) -> Cast {
        let last = self.switches.iter().flatten().flatten().max();
        let none = |count| vec![Votes::default(); count];
        let mut cast = Cast {
            hosts: none(self.hosts),
            switches: none(last.map_or(0, |last| last + 1)),
            hops: none(self.switches.len()),
        };
        let (mut passed, mut hosts): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for probe in probes {
            passed.clear();
            hosts.clear();
            hosts.extend(probe.hosts.iter().flatten());
            for &hop in &probe.hops {
                cast.hops[hop].add(probe);
                passed.extend(self.switches[hop][1]);
                hosts.extend(self.relays[hop][1]);
            }
            for nodes in [&mut passed, &mut hosts] {
                nodes.sort_unstable();
                nodes.dedup();
            }
            let through = passed.iter().filter(|&&it| self.passes(probe, it));
            through.for_each(|&it| cast.switches[it].add(probe));
            let own = hosts.iter().filter(|&&it| self.has_to_do_with(probe, it));
            own.for_each(|&it| cast.hosts[it].add(probe));
        }
        cast
    }
}

fn passes(nodes: &[[Option<usize>; 2]], probe: &Probe, node: usize) -> bool {
    let has = |end: usize| {
        let mut hops = probe.hops.iter();
        hops.any(|&hop| nodes[hop][end] == Some(node))
    };
    has(0) && has(1)
}

impl Cast {
    /// The logarithm of how much likelier the losses are if ports of the switch differ, in what comes in or
    /// in what goes out, beyond what they differ by where all lose the same.
    pub(super) fn unevenness(&self, switch: usize, ground: &Ground) -> f64 {
        let of = |end: usize| {
            let hops = ground.switches.iter().zip(&self.hops);
            let own = hops.filter(|(ends, _)| ends[end] == Some(switch));
            let own: Vec<_> = own.map(|(_, votes)| *votes).collect();
            unevenness(&own)
        };
        f64::max(of(0), of(1))
    }
}

/// Half of what is known as G is about half of the others' number where all are alike.
fn unevenness(parts: &[Votes]) -> f64 {
    let mut all = Votes::default();
    for part in parts {
        all.sent += part.sent;
        all.lost += part.lost;
    }
    let apart: f64 = parts.iter().map(|part| part.likelihood()).sum();
    let others = parts.len().saturating_sub(1) as f64;
    apart - all.likelihood() - others / 2.0
}

impl Votes {
    pub(super) fn add(&mut self, probe: &Probe) {
        self.sent += probe.sent;
        self.lost += probe.lost;
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self {
            sent: self.sent - other.sent,
            lost: self.lost - other.lost,
        }
    }

    pub(super) fn share(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// The logarithm of how much likelier the losses are if these lose more than the rest.
    pub(super) fn evidence(self, rest: Self) -> f64 {
        let all = Self {
            sent: self.sent + rest.sent,
            lost: self.lost + rest.lost,
        };
        self.likelihood() + rest.likelihood() - all.likelihood()
    }

    /// The logarithm of how likely these losses are at their own share.
    fn likelihood(self) -> f64 {
        let part = |count: u64| match count {
            0 => 0.0,
            _ => count as f64 * libm::log(count as f64 / self.sent as f64),
        };
        part(self.lost) + part(self.sent - self.lost)
    }
}
