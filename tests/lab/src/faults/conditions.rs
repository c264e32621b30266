//! Conditions of the cluster at one moment, and the changes between two moments.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::{LinkId, NodeId, Rank};
use reweave_common::scenario::{Fault, FaultKind, Scenario};
use reweave_common::units::Rate;

/// Conditions that faults cause at one moment. Overlapping faults compose: a link is dark while any fault requires it,
/// loses what any fault loses, and has the highest delay.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Conditions {
    dark: BTreeSet<LinkId>,
    loss: BTreeMap<LinkId, f64>,
    rate: BTreeMap<LinkId, Rate>,
    stopped: BTreeSet<Victim>,
    /// Nodes that drop packets, with the senders.
    deaf: BTreeMap<NodeId, BTreeSet<NodeId>>,
}

/// Killed or stopped processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Victim {
    /// All processes of a host.
    Host(NodeId),
    /// The process of one rank of a job.
    Process(usize, Rank),
}

/// A change of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    Kill(Victim),
    Carrier {
        links: BTreeSet<LinkId>,
        up: bool,
    },
    /// Each packet is lost with this probability.
    Loss(LinkId, f64),
    Rate(LinkId, Rate),
    Stop(Victim),
    /// All continue, except those with a stop of their own.
    Continue(Victim, BTreeSet<Victim>),
    /// The nodes that stop or start hearing others; an empty set hears all.
    Deaf(BTreeMap<NodeId, BTreeSet<NodeId>>),
}

impl Conditions {
    /// Returns the conditions while these faults are active.
    pub(super) fn of<'f>(active: impl Iterator<Item = &'f Fault>, scenario: &Scenario) -> Self {
        let mut conditions = Self::default();
        for fault in active {
            conditions.add(&fault.kind, scenario);
        }
        conditions
    }

    fn add(&mut self, kind: &FaultKind, scenario: &Scenario) {
        self.dark.extend(kind.dark_links(&scenario.fabric));
        match *kind {
            FaultKind::LinkDown { .. }
            | FaultKind::LinkFlap { .. }
            | FaultKind::HostKill { .. }
            | FaultKind::ProcessKill { .. } => {}
            FaultKind::LinkLoss { link, probability } => self.add_loss(link, probability),
            FaultKind::LinkRate { link, rate } => {
                let slowest = self.rate.entry(link).or_insert(rate);
                *slowest = rate.min(*slowest);
            }
            FaultKind::HostStop { host } => self.stop(Victim::Host(host)),
            FaultKind::ProcessStop { job, rank } => self.stop(Victim::Process(job, rank)),
            FaultKind::Partition {
                ref a,
                ref b,
                one_way,
            } => {
                self.add_deafness(b, a);
                if !one_way {
                    self.add_deafness(a, b);
                }
            }
        }
    }

    /// Combines losses: a packet must survive each.
    fn add_loss(&mut self, link: LinkId, probability: f64) {
        let loss = self.loss.entry(link).or_insert(0.0);
        *loss = 1.0 - (1.0 - *loss) * (1.0 - probability);
    }

    fn stop(&mut self, victim: Victim) {
        self.stopped.insert(victim);
    }

    fn add_deafness(&mut self, deaf: &[NodeId], to: &[NodeId]) {
        for node in deaf {
            self.deaf.entry(*node).or_default().extend(to);
        }
    }

    /// Returns the changes from these conditions to `next`.
    pub(super) fn changes_to(&self, next: &Self, scenario: &Scenario) -> Vec<Change> {
        let mut changes = Vec::new();
        let carrier = [
            (&next.dark, &self.dark, false),
            (&self.dark, &next.dark, true),
        ];
        for (these, others, up) in carrier {
            let links: BTreeSet<_> = these.difference(others).copied().collect();
            if !links.is_empty() {
                changes.push(Change::Carrier { links, up });
            }
        }
        changes.extend(self.loss_changes(next));
        changes.extend(self.rate_changes(next, scenario));
        changes.extend(self.stop_changes(next, scenario));
        changes.extend(self.hearing_changes(next));
        changes
    }

    fn loss_changes(&self, next: &Self) -> Vec<Change> {
        let loss = |of: &Self, link| of.loss.get(&link).copied().unwrap_or(0.0);
        let differs = |link: &LinkId| loss(self, *link) != loss(next, *link);
        keys_of(&self.loss, &next.loss)
            .filter(differs)
            .map(|link| Change::Loss(link, loss(next, link)))
            .collect()
    }

    fn rate_changes(&self, next: &Self, scenario: &Scenario) -> Vec<Change> {
        let own = |link| scenario.fabric.link(link).rate;
        let rate = |of: &Self, link| of.rate.get(&link).copied().unwrap_or_else(|| own(link));
        keys_of(&self.rate, &next.rate)
            .filter(|link| rate(self, *link) != rate(next, *link))
            .map(|link| Change::Rate(link, rate(next, link)))
            .collect()
    }

    fn stop_changes(&self, next: &Self, scenario: &Scenario) -> Vec<Change> {
        let stops = next.stopped.difference(&self.stopped).copied();
        let ends = self.stopped.difference(&next.stopped).copied();
        let released = ends.filter(|victim| !next.is_held_by_its_host(*victim, scenario));
        let held = |victim| next.stopped_on(victim, scenario);
        let released = released.map(|victim| Change::Continue(victim, held(victim)));
        stops.map(Change::Stop).chain(released).collect()
    }

    /// Whether the victim is a process on a host that stands still.
    fn is_held_by_its_host(&self, victim: Victim, scenario: &Scenario) -> bool {
        let host = host_of(victim, scenario);
        victim != Victim::Host(host) && self.stopped.contains(&Victim::Host(host))
    }

    /// The processes on a host that are stopped for themselves.
    fn stopped_on(&self, host: Victim, scenario: &Scenario) -> BTreeSet<Victim> {
        let on_it = |victim: &&Victim| Victim::Host(host_of(**victim, scenario)) == host;
        let others = self.stopped.iter().filter(|victim| **victim != host);
        others.filter(on_it).copied().collect()
    }

    fn hearing_changes(&self, next: &Self) -> Option<Change> {
        let deaf = |of: &Self, node| of.deaf.get(&node).cloned().unwrap_or_default();
        let changed: BTreeMap<_, _> = keys_of(&self.deaf, &next.deaf)
            .filter(|node| deaf(self, *node) != deaf(next, *node))
            .map(|node| (node, deaf(next, node)))
            .collect();
        (!changed.is_empty()).then_some(Change::Deaf(changed))
    }
}

fn host_of(victim: Victim, scenario: &Scenario) -> NodeId {
    match victim {
        Victim::Host(host) => host,
        Victim::Process(job, rank) => scenario.jobs[job].hosts[rank.index()],
    }
}

fn keys_of<K: Copy + Ord, V>(a: &BTreeMap<K, V>, b: &BTreeMap<K, V>) -> impl Iterator<Item = K> {
    let keys: BTreeSet<K> = a.keys().chain(b.keys()).copied().collect();
    keys.into_iter()
}
