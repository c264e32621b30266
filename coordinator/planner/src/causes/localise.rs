//! Where probes get lost: votes of traced paths.
//!
//! Each direction of a link, and each host, is weighed by how much likelier the losses are if it
//! alone loses more than the rest. The likeliest goes first, and with it all probes that crossed it;
//! what is left is weighed again. What is nearly as likely cannot be told apart from it.

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;

use super::evidence::{Evidence, EvidenceError, UNKNOWN, hops, subject_of};
use super::{Cause, Class, Subject};
use crate::paths::{Atlas, HopIndex};

/// Probes of one flow and the hops they crossed, there and back.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    pub hops: Vec<HopIndex>,
    pub hosts: [usize; 2],
    pub sent: u64,
    pub lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspect {
    Host(usize),
    Hop(HopIndex),
}

/// Who loses probes, or those of whom one does; the likeliest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    pub suspects: Vec<Suspect>,
    pub sent: u64,
    pub lost: u64,
    /// The share that is lost elsewhere.
    pub elsewhere: f64,
    /// The logarithm of how much likelier the losses are with it than without.
    pub evidence: f64,
}

/// Fewer lost probes than these say nothing.
const FEWEST_LOST: u64 = 3;
/// One false alarm in so many looks at one suspect: e^16.
const LEAST_EVIDENCE: f64 = 16.0;
/// Twenty times less likely is another matter.
const AMBIGUOUS: f64 = 3.0;
const MOST_CULPRITS: usize = 16;

#[derive(Debug, Clone, Copy, Default)]
struct Votes {
    sent: u64,
    lost: u64,
}

impl Votes {
    fn add(&mut self, probe: &Probe) {
        self.sent += probe.sent;
        self.lost += probe.lost;
    }

    fn without(self, other: Self) -> Self {
        Self {
            sent: self.sent - other.sent,
            lost: self.lost - other.lost,
        }
    }

    fn share(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// The logarithm of how much likelier the losses are if these lose more than the rest.
    fn evidence(self, rest: Self) -> f64 {
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

/// Weighs hops below `hops` and hosts below `hosts`.
pub fn localise(hops: usize, hosts: usize, probes: &[Probe]) -> Vec<Culprit> {
    let mut left: Vec<&Probe> = probes.iter().filter(|probe| probe.sent > 0).collect();
    let mut culprits = Vec::new();
    while let Some(culprit) = likeliest(hops, hosts, &left) {
        let first = culprit.suspects[0];
        left.retain(|probe| !first.touches(probe));
        culprits.push(culprit);
        if culprits.len() == MOST_CULPRITS {
            break;
        }
    }
    culprits
}

fn likeliest(hops: usize, hosts: usize, probes: &[&Probe]) -> Option<Culprit> {
    let mut all = Votes::default();
    probes.iter().for_each(|probe| all.add(probe));
    let weighed = weighed(hops, hosts, probes, all);
    let best = weighed.first().filter(|best| best.0 >= LEAST_EVIDENCE)?;
    let host = host_behind(best.1, probes).map(Suspect::Host);
    let host = weighed
        .iter()
        .position(|it| Some(it.1) == host && it.0 >= LEAST_EVIDENCE);
    let weighed = &weighed[host.unwrap_or(0)..];
    let &(evidence, _, votes) = weighed.first()?;
    let near = weighed.iter().take_while(|it| it.0 > evidence - AMBIGUOUS);
    let mut suspects: Vec<_> = near.map(|it| it.1).collect();
    if let Some(host) = suspects
        .iter()
        .position(|it| matches!(it, Suspect::Host(_)))
    {
        suspects[..=host].rotate_right(1);
    }
    Some(Culprit {
        suspects,
        sent: votes.sent,
        lost: votes.lost,
        elsewhere: all.without(votes).share(),
        evidence,
    })
}

/// All that lose more than the rest, those with most evidence first. Of equals hosts stay ahead.
fn weighed(hops: usize, hosts: usize, probes: &[&Probe], all: Votes) -> Vec<(f64, Suspect, Votes)> {
    let (mut of_hop, mut of_host) = (vec![Votes::default(); hops], vec![Votes::default(); hosts]);
    for probe in probes {
        probe.hops.iter().for_each(|&hop| of_hop[hop].add(probe));
        let ends = probe.hosts.iter();
        ends.for_each(|&host| of_host[host].add(probe));
    }
    let hosts = (0..).map(Suspect::Host).zip(of_host);
    let hops = (0..).map(Suspect::Hop).zip(of_hop);
    let weighed = hosts.chain(hops).filter_map(|(suspect, votes)| {
        let rest = all.without(votes);
        let suspicious = votes.lost >= FEWEST_LOST && votes.share() > rest.share();
        suspicious.then_some((votes.evidence(rest), suspect, votes))
    });
    let mut weighed: Vec<_> = weighed.collect();
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0));
    weighed
}

/// The host where all probes over this hop begin or end, if others of its probes get lost too: then
/// there is more wrong with it than this one direction of its link, which has but lost more so far.
fn host_behind(suspect: Suspect, probes: &[&Probe]) -> Option<usize> {
    let Suspect::Hop(_) = suspect else {
        return None;
    };
    let (over, others): (Vec<&Probe>, Vec<&Probe>) =
        probes.iter().partition(|it| suspect.touches(it));
    let mut candidates = over.first()?.hosts.into_iter().filter(|host| {
        let host = Suspect::Host(*host);
        over.iter().all(|probe| host.touches(probe)) && host.loses_more(&others)
    });
    candidates.next()
}

impl Suspect {
    fn loses_more(self, probes: &[&Probe]) -> bool {
        let [mut votes, mut rest] = [Votes::default(); 2];
        for probe in probes {
            let side = if self.touches(probe) {
                &mut votes
            } else {
                &mut rest
            };
            side.add(probe);
        }
        votes.share() > rest.share() && votes.evidence(rest) >= AMBIGUOUS
    }

    fn touches(self, probe: &Probe) -> bool {
        match self {
            Self::Host(host) => probe.hosts.contains(&host),
            Self::Hop(hop) => probe.hops.contains(&hop),
        }
    }
}

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let atlas = Atlas::new(fabric);
    let probes = evidence
        .probes
        .iter()
        .filter(|it| !it.path.iter().any(|name| name == UNKNOWN));
    let probe = |probed: &super::evidence::Probed| {
        let hops = hops(fabric, &probed.path)?;
        let ends = [hops.first().map(|hop| hop.from), farthest(&atlas, &hops)];
        let mut hops: Vec<_> = hops.iter().map(|&hop| atlas.index(hop)).collect();
        hops.sort_unstable();
        hops.dedup();
        Ok(Probe {
            hops,
            hosts: ends.map(|node| node.map_or(0, NodeId::index)),
            sent: probed.sent,
            lost: probed.lost,
        })
    };
    let probes = probes
        .map(probe)
        .collect::<Result<Vec<_>, EvidenceError>>()?;
    let found = localise(atlas.hops(), fabric.nodes().len(), &probes);
    Ok(found
        .iter()
        .map(|culprit| finding(&atlas, culprit, evidence))
        .collect())
}

/// The host at the other end, where a path leads there and back.
fn farthest(atlas: &Atlas<'_>, hops: &[reweave_common::snapshot::Hop]) -> Option<NodeId> {
    let is_host = |node: &NodeId| atlas.fabric.node(*node).role != Role::Switch;
    let first = hops.first()?.from;
    let ends = hops.iter().map(|&hop| atlas.far(hop));
    ends.filter(is_host).find(|&end| end != first)
}

fn finding(atlas: &Atlas<'_>, culprit: &Culprit, evidence: &Evidence) -> Cause {
    let fabric = atlas.fabric;
    let host = |index: usize| fabric.name(NodeId::from_index(index)).to_owned();
    let subject = |suspect: &Suspect| match *suspect {
        Suspect::Host(index) => Subject::Host(host(index)),
        Suspect::Hop(index) => subject_of(fabric, atlas.hop(index)),
    };
    let subjects = culprit.suspects.iter().map(subject).collect();
    let mut subjects = host_before_link(subjects);
    let dropping = dropping(&subjects, evidence);
    if let [(place, _)] = dropping[..] {
        subjects = vec![subjects.swap_remove(place)];
    }
    let class = match subjects[0] {
        Subject::Host(_) => Class::FaultyHost,
        _ => Class::LossyLink,
    };
    let Culprit { sent, lost, .. } = *culprit;
    let elsewhere = 100.0 * culprit.elsewhere;
    let said = format!("{lost} of {sent} probes lost there, {elsewhere:.2} % elsewhere");
    let confidence = 1.0 / (subjects.len() as f64) * (1.0 - libm::exp(-culprit.evidence / 8.0));
    let subject = match subjects.len() {
        1 => subjects.remove(0),
        _ => Subject::Ambiguous(subjects),
    };
    let mut finding = class.cause(subject, confidence, said);
    if let [(_, said)] = &dropping[..] {
        finding.evidence.push(said.clone());
    }
    finding
}

/// Which of several hops drop what they have to send, by the counters of their senders.
fn dropping(subjects: &[Subject], evidence: &Evidence) -> Vec<(usize, String)> {
    let drops = |(place, subject): (usize, &Subject)| match subject {
        Subject::Hop { from, to, .. } => {
            let mut ports = evidence.ports.iter();
            let port = ports.find(|port| port.node == *from && port.peer == *to)?;
            let said = format!(
                "{from} dropped {} packets on the way to {to}",
                port.send_drops
            );
            (port.send_drops > 0).then_some((place, said))
        }
        _ => None,
    };
    subjects.iter().enumerate().filter_map(drops).collect()
}

/// A host's own link is the host, as far as probes can tell.
fn host_before_link(subjects: Vec<Subject>) -> Vec<Subject> {
    let hosts = subjects.iter().filter_map(|subject| match subject {
        Subject::Host(host) => Some(host.clone()),
        _ => None,
    });
    let hosts: Vec<_> = hosts.collect();
    let own = |subject: &Subject| match subject {
        Subject::Hop { from, to, .. } => hosts.contains(from) || hosts.contains(to),
        _ => false,
    };
    subjects
        .into_iter()
        .filter(|subject| !own(subject))
        .collect()
}
