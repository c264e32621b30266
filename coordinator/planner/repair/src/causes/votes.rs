//! Votes: numbers of probes that cross each element, and of those that are lost.

use reweave_common::fabric::Role;

use super::localise::Probe;
use crate::paths::{Atlas, HopIndex};

/// Fewer lost probes than these say nothing.
pub(super) const MIN_LOST_PROBES: u64 = 3;

/// Elements of the fabric that probes can accuse.
#[derive(Debug, Clone, Default)]
pub struct Ground {
    /// Sending and receiving switch of each hop; none for a host.
    pub switches: Vec<[Option<usize>; 2]>,
    /// The same where these are hosts that forward for others.
    pub relays: Vec<[Option<usize>; 2]>,
    /// First hop of each link of a node that is a host.
    pub cables: Vec<Vec<HopIndex>>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Votes {
    pub(super) sent: u64,
    pub(super) lost: u64,
    /// Hops that those sent would cross in all.
    pub(super) crossings: u64,
}

/// Probes that concern each suspect.
pub(super) struct Cast {
    pub(super) all: Votes,
    pub(super) hosts: Vec<Votes>,
    pub(super) switches: Vec<Votes>,
    pub(super) hops: Vec<Votes>,
    /// Both directions together.
    pub(super) links: Vec<Votes>,
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
        let cables = fabric.nodes().map(|(id, node)| {
            let links = fabric.links_of(id).iter();
            let links = links.filter(|_| node.role.is_endpoint());
            links.map(|link| 2 * link.index()).collect()
        });
        Self {
            switches: ends(Role::Switch),
            relays: ends(Role::Relay),
            cables: cables.collect(),
        }
    }

    pub(super) fn is_at(&self, hop: HopIndex, switch: usize) -> bool {
        self.switches[hop].contains(&Some(switch))
    }

    pub(super) fn enters(&self, hop: HopIndex, switch: usize) -> bool {
        self.switches[hop][1] == Some(switch)
    }

    /// Whether switches are at both ends.
    pub(super) fn is_inner(&self, hop: HopIndex) -> bool {
        self.switches[hop].iter().all(Option::is_some)
    }

    /// Returns how often the probe enters the switch.
    pub(super) fn entries(&self, probe: &Probe, switch: usize) -> usize {
        let hops = probe.hops.iter();
        hops.filter(|&&hop| self.enters(hop, switch)).count()
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
            all: Votes::default(),
            hosts: none(self.cables.len()),
            switches: none(last.map_or(0, |last| last + 1)),
            hops: none(self.switches.len()),
            links: none(self.switches.len() / 2),
        };
        let (mut passed, mut hosts): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        for probe in probes {
            cast.all.add(probe);
            passed.clear();
            hosts.clear();
            hosts.extend(probe.hosts.iter().flatten());
            for (place, &hop) in probe.hops.iter().enumerate() {
                cast.hops[hop].add(probe);
                if !probe.hops[..place].contains(&(hop ^ 1)) {
                    cast.links[hop / 2].add(probe);
                }
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

impl Votes {
    pub(super) fn of<'p>(probes: impl IntoIterator<Item = &'p Probe>) -> Self {
        let mut votes = Self::default();
        probes.into_iter().for_each(|probe| votes.add(probe));
        votes
    }

    pub(super) fn add(&mut self, probe: &Probe) {
        self.sent += probe.sent;
        self.lost += probe.lost;
        self.crossings += probe.sent * probe.hops.len() as u64;
    }

    pub(super) fn take(&mut self, other: Self) {
        self.sent += other.sent;
        self.lost += other.lost;
        self.crossings += other.crossings;
    }

    /// Returns the evidence that these lose a higher share than the rest, in nats. None if their share is no higher, or if they
    /// lost too few.
    pub(super) fn against(self, all: Self) -> Option<f64> {
        let rest = all.without(self);
        let suspicious = self.lost >= MIN_LOST_PROBES && self.share() > rest.share();
        suspicious.then(|| self.evidence(rest))
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self {
            sent: self.sent - other.sent,
            lost: self.lost - other.lost,
            crossings: self.crossings - other.crossings,
        }
    }

    pub(super) fn share(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// The log-likelihood ratio in nats of two loss shares, one of these probes and one of the rest, against one share of all. It
    /// is half of the G statistic of the two groups. It does not say which share is higher.
    pub(super) fn evidence(self, rest: Self) -> f64 {
        let mut all = self;
        all.take(rest);
        self.likelihood() + rest.likelihood() - all.likelihood()
    }

    /// The same ratio against one loss share of every hop, by which a probe over more hops is lost more often. So a suspect with
    /// more round trips is no worse for that. Each group counts with its mean number of hops.
    pub(super) fn evidence_by_crossings(self, rest: Self) -> f64 {
        let mut all = self;
        all.take(rest);
        let one_passes = libm::log(1.0 - all.share()) / all.length();
        let apart = |votes: Self| {
            let all_pass = libm::exp(one_passes * votes.length());
            votes.likelihood() - votes.likelihood_at(1.0 - all_pass)
        };
        apart(self) + apart(rest)
    }

    /// The mean number of hops of these probes.
    fn length(self) -> f64 {
        self.crossings.max(1) as f64 / self.sent.max(1) as f64
    }

    /// The highest log-likelihood of these losses, in nats: that at their own share.
    pub(super) fn likelihood(self) -> f64 {
        self.likelihood_at(self.share())
    }

    /// The binomial log-likelihood of these losses at a loss share, in nats. The binomial coefficient is left out: it cancels in
    /// each ratio.
    pub(super) fn likelihood_at(self, share: f64) -> f64 {
        let part = |count: u64, share: f64| match count {
            0 => 0.0,
            _ => count as f64 * libm::log(share),
        };
        part(self.lost, share) + part(self.sent - self.lost, 1.0 - share)
    }
}
