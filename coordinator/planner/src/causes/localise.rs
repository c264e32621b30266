//! Where probes get lost: votes of traced paths.
//!
//! Each direction of a link, and each host, is weighed by how much likelier the losses are if it
//! alone loses more than the rest. The likeliest goes first, and with it all probes that crossed it;
//! what is left is weighed again. What is nearly as likely cannot be told apart from it.

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;
use reweave_common::snapshot::Hop;

use super::evidence::{Evidence, EvidenceError, UNKNOWN, hops, subject_of};
use super::{Cause, Class, Subject};
use crate::paths::{Atlas, HopIndex};

/// Probes of one flow and the hops they crossed, there and back.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    pub hops: Vec<HopIndex>,
    /// At the ends; none where a switch sends or answers them.
    pub hosts: [Option<usize>; 2],
    pub sent: u64,
    pub lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspect {
    Host(usize),
    Hop(HopIndex),
}

/// Who loses probes, or those of whom one does; the likeliest first, but a host before a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Culprit {
    pub suspects: Vec<Suspect>,
    /// One direction of a link is likelier than the host at its end, and not by enough to clear the host.
    pub may_be_host: bool,
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
/// A host that loses both ways may have lost one way alone by chance: as with so many coins in a row, 12.
const CLEARS_HOST: f64 = 8.0;
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
    weighed.first().filter(|best| best.0 >= LEAST_EVIDENCE)?;
    let host = host_behind(&weighed, probes);
    let (weighed, open) = match host {
        Some((place, true)) => (&weighed[place..], None),
        open => (&weighed[..], open.map(|(place, _)| weighed[place].1)),
    };
    let &(evidence, _, votes) = weighed.first()?;
    let near = weighed.iter().take_while(|it| it.0 > evidence - AMBIGUOUS);
    let near = near.filter(|it| it.1 == weighed[0].1 || !is_apart(it.1, weighed[0].1, probes));
    let mut suspects: Vec<_> = near.map(|it| it.1).collect();
    let may_be_host = open.is_some_and(|host| !suspects.contains(&host));
    suspects.extend(open.filter(|_| may_be_host));
    if let Some(host) = suspects
        .iter()
        .position(|it| matches!(it, Suspect::Host(_)))
    {
        suspects[..=host].rotate_right(1);
    }
    Some(Culprit {
        suspects,
        may_be_host,
        sent: votes.sent,
        lost: votes.lost,
        elsewhere: all.without(votes).share(),
        evidence,
    })
}

/// Whether it loses probes that do not come by the other one: then it is not that they cannot be told
/// apart, but that there are two.
fn is_apart(suspect: Suspect, other: Suspect, probes: &[&Probe]) -> bool {
    let elsewhere = probes.iter().filter(|it| !other.touches(it)).copied();
    let elsewhere: Vec<_> = elsewhere.collect();
    suspect.outweighs(&elsewhere, LEAST_EVIDENCE)
}

/// All that lose more than the rest, those with most evidence first. Of equals hosts stay ahead.
fn weighed(hops: usize, hosts: usize, probes: &[&Probe], all: Votes) -> Vec<(f64, Suspect, Votes)> {
    let (mut of_hop, mut of_host) = (vec![Votes::default(); hops], vec![Votes::default(); hosts]);
    for probe in probes {
        probe.hops.iter().for_each(|&hop| of_hop[hop].add(probe));
        let ends = probe.hosts.iter().flatten();
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

/// Where the host stands at which all probes over the likeliest hop begin or end, and whether it is the
/// host for sure: others of its probes get lost too, so there is more wrong with it than this one
/// direction of its link, which has but lost more so far. None where it is cleared.
fn host_behind(weighed: &[(f64, Suspect, Votes)], probes: &[&Probe]) -> Option<(usize, bool)> {
    let &(most, hop @ Suspect::Hop(_), _) = weighed.first()? else {
        return None;
    };
    let (over, others): (Vec<&Probe>, Vec<&Probe>) = probes.iter().partition(|it| hop.touches(it));
    let ends = over.first()?.hosts.into_iter().flatten();
    let ends = ends.map(Suspect::Host);
    let is_end = |host: &Suspect| over.iter().all(|probe| host.touches(probe));
    let place = |host| weighed.iter().position(|it| it.1 == host);
    let places = ends.filter(is_end).filter_map(place);
    let judged = places.map(|place| {
        let (evidence, host, _) = weighed[place];
        let is_sure = evidence >= LEAST_EVIDENCE && host.outweighs(&others, AMBIGUOUS);
        (place, is_sure, evidence > most - CLEARS_HOST)
    });
    let open = judged.filter(|(_, is_sure, is_open)| *is_sure || *is_open);
    let (place, is_sure, _) = open.max_by_key(|(_, is_sure, _)| *is_sure)?;
    Some((place, is_sure))
}

impl Suspect {
    /// Whether it loses more of these probes than the rest of them, and by so much evidence.
    fn outweighs(self, probes: &[&Probe], least: f64) -> bool {
        let [mut votes, mut rest] = [Votes::default(); 2];
        for probe in probes {
            let side = if self.touches(probe) {
                &mut votes
            } else {
                &mut rest
            };
            side.add(probe);
        }
        votes.share() > rest.share() && votes.evidence(rest) >= least
    }

    fn touches(self, probe: &Probe) -> bool {
        match self {
            Self::Host(host) => probe.hosts.contains(&Some(host)),
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
        let first = hops.first().map(|hop| hop.from);
        let first = first.filter(|&node| atlas.fabric.node(node).role != Role::Switch);
        let ends = [first, farthest(&atlas, &hops)];
        let mut hops: Vec<_> = hops.iter().map(|&hop| atlas.index(hop)).collect();
        hops.sort_unstable();
        hops.dedup();
        Ok(Probe {
            hops,
            hosts: ends.map(|node| node.map(NodeId::index)),
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
fn farthest(atlas: &Atlas<'_>, hops: &[Hop]) -> Option<NodeId> {
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
    let all = culprit.suspects.iter();
    let all = all.flat_map(|suspect| beside(atlas, *suspect));
    let mut subjects: Vec<_> = all.map(|suspect| subject(&suspect)).collect();
    if !culprit.may_be_host {
        subjects = host_before_link(subjects);
    }
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

/// Paths name nodes: of parallel links between two of them, each may be it.
fn beside(atlas: &Atlas<'_>, suspect: Suspect) -> Vec<Suspect> {
    let Suspect::Hop(index) = suspect else {
        return vec![suspect];
    };
    let hop = atlas.hop(index);
    let links = atlas.fabric.links_between(hop.from, atlas.far(hop));
    let hops = links.map(|link| atlas.index(Hop { link, ..hop }));
    hops.map(Suspect::Hop).collect()
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
