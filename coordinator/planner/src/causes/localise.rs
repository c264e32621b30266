//! Where probes get lost: votes of traced paths.
//!
//! Each direction of a link, each host and each switch is weighed by how much likelier the losses are if
//! it alone loses more than the rest. The likeliest goes first, and with it all probes that crossed it;
//! what is left is weighed again. What is nearly as likely cannot be told apart from it.

use std::collections::BTreeMap;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};

use super::change::WORTH_A_WORD;
use super::evidence::{Evidence, EvidenceError, Probed, UNKNOWN, link_of, subject_of};
use super::passages::{Passage, passages};
use super::vanished::Vanished;
use super::votes::{Cast, Ground, Votes};
use super::{Cause, Class, Sifted, Subject, cables};
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
    Switch(usize),
    Hop(HopIndex),
    /// Both directions of the link that this is the first of.
    Link(HopIndex),
}

/// Who loses probes, or those of whom one does; the likeliest first, but a host or switch before a link.
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
/// By chance, ports of a switch differ by less.
const CLEARS_SWITCH: f64 = 8.0;
/// Of two directions of one cable.
const CLEARLY_MORE: f64 = 4.0;
const MOST_CULPRITS: usize = 16;

pub fn localise(ground: &Ground, probes: &[Probe]) -> Vec<Culprit> {
    let mut left: Vec<&Probe> = probes.iter().filter(|probe| probe.sent > 0).collect();
    let mut culprits = Vec::new();
    while let Some(culprit) = likeliest(ground, &left) {
        let first = culprit.suspects[0];
        left.retain(|probe| !first.touches(probe, ground));
        culprits.push(culprit);
        if culprits.len() == MOST_CULPRITS {
            break;
        }
    }
    culprits
}

fn likeliest(ground: &Ground, probes: &[&Probe]) -> Option<Culprit> {
    let mut all = Votes::default();
    probes.iter().for_each(|probe| all.add(probe));
    let cast = ground.cast(probes);
    let weighed = weighed(ground, &cast, all);
    weighed.first().filter(|best| best.0 >= LEAST_EVIDENCE)?;
    let host = host_behind(&weighed, probes, ground);
    let (weighed, open) = match host {
        Some((place, true)) => (&weighed[place..], None),
        open => (&weighed[..], open.map(|(place, _)| weighed[place].1)),
    };
    let &(evidence, first, votes) = weighed.first()?;
    let is_near = |it: &&Weighed| it.0 > evidence - first.margin(it.1, ground);
    let near = weighed.iter().filter(is_near);
    let near = near.filter(|it| it.1 == first || !is_apart(it.1, first, probes, ground));
    let mut suspects: Vec<_> = near.map(|it| it.1).collect();
    suspects.extend(links_behind(weighed, all, probes, ground));
    suspects.extend(port_behind(weighed, &cast, ground));
    let may_be_host = open.is_some_and(|host| !suspects.contains(&host));
    suspects.extend(open.filter(|_| may_be_host));
    let is_likely = |it: &Suspect| {
        let mut likely = weighed.iter();
        likely.any(|(weight, suspect, _)| suspect == it && *weight > evidence - AMBIGUOUS)
    };
    // A switch that is only not cleared yet stays behind.
    let goes_first = |it: &Suspect| match it {
        Suspect::Host(_) => true,
        Suspect::Switch(_) => is_likely(it),
        _ => false,
    };
    if let Some(node) = suspects.iter().position(goes_first) {
        suspects[..=node].rotate_right(1);
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
fn is_apart(suspect: Suspect, other: Suspect, probes: &[&Probe], ground: &Ground) -> bool {
    let elsewhere = probes.iter().filter(|it| !other.touches(it, ground));
    let elsewhere: Vec<_> = elsewhere.copied().collect();
    suspect.outweighs(&elsewhere, LEAST_EVIDENCE, ground)
}

/// How much likelier the losses are with a suspect, and the probes that it touches.
type Weighed = (f64, Suspect, Votes);

/// All that lose more than the rest, those with most evidence first. Of equals hosts stay ahead, and
/// switches of links.
fn weighed(ground: &Ground, cast: &Cast, all: Votes) -> Vec<Weighed> {
    let hosts = (0..).map(Suspect::Host).zip(&cast.hosts);
    let switches = (0..).map(Suspect::Switch).zip(&cast.switches);
    let hops = (0..).map(Suspect::Hop).zip(&cast.hops);
    let suspects = hosts.chain(switches).chain(hops);
    let weighed =
        suspects.filter_map(|(suspect, &votes)| Some((weight(votes, all)?, suspect, votes)));
    let may_be = |(_, suspect, _): &Weighed| match *suspect {
        Suspect::Switch(switch) => cast.unevenness(switch, ground) < CLEARS_SWITCH,
        _ => true,
    };
    let mut weighed: Vec<_> = weighed.filter(may_be).collect();
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0));
    weighed
}

/// None where no more is lost than elsewhere.
fn weight(votes: Votes, all: Votes) -> Option<f64> {
    let rest = all.without(votes);
    let suspicious = votes.lost >= FEWEST_LOST && votes.share() > rest.share();
    suspicious.then(|| votes.evidence(rest))
}

/// Links of a switch that lose as much both ways as it does: a spine between two leaves may be either of
/// its two cables.
fn links_behind(
    weighed: &[Weighed],
    all: Votes,
    probes: &[&Probe],
    ground: &Ground,
) -> Vec<Suspect> {
    let (evidence, Suspect::Switch(switch), _) = weighed[0] else {
        return Vec::new();
    };
    let links = ground.links_of(switch).into_iter().map(Suspect::Link);
    let is_near = |link: &Suspect| {
        let weight = weight(link.votes(probes, ground), all);
        weight.is_some_and(|weight| weight > evidence - CLEARS_HOST)
    };
    links.filter(is_near).collect()
}

/// The likeliest hop at a switch some of whose ports lose more than others, and not by enough to clear it.
fn port_behind(weighed: &[Weighed], cast: &Cast, ground: &Ground) -> Option<Suspect> {
    let (_, Suspect::Switch(switch), _) = weighed[0] else {
        return None;
    };
    let is_uneven = cast.unevenness(switch, ground) > AMBIGUOUS;
    let mut others = weighed.iter().map(|it| it.1).filter(|_| is_uneven);
    others.find(|it| matches!(*it, Suspect::Hop(hop) if ground.is_at(hop, switch)))
}

/// Where the host stands at which all probes over the likeliest hop begin or end, and whether it is the
/// host for sure: others of its probes get lost too, so there is more wrong with it than this one
/// direction of its link, which has but lost more so far. None where it is cleared.
fn host_behind(weighed: &[Weighed], probes: &[&Probe], ground: &Ground) -> Option<(usize, bool)> {
    let &(most, hop @ Suspect::Hop(_), _) = weighed.first()? else {
        return None;
    };
    let (over, others): (Vec<&Probe>, Vec<&Probe>) = probes
        .iter()
        .copied()
        .partition(|it| hop.touches(it, ground));
    let ends = over.first()?.hosts.into_iter().flatten();
    let ends = ends.map(Suspect::Host);
    let is_end = |host: &Suspect| over.iter().all(|probe| host.touches(probe, ground));
    let place = |host| weighed.iter().position(|it| it.1 == host);
    let places = ends.filter(is_end).filter_map(place);
    let judged = places.map(|place| {
        let (evidence, host, _) = weighed[place];
        let is_sure = evidence >= LEAST_EVIDENCE && host.outweighs(&others, AMBIGUOUS, ground);
        (place, is_sure, evidence > most - CLEARS_HOST)
    });
    let open = judged.filter(|(_, is_sure, is_open)| *is_sure || *is_open);
    let (place, is_sure, _) = open.max_by_key(|(_, is_sure, _)| *is_sure)?;
    Some((place, is_sure))
}

impl Culprit {
    /// Whether they lose such different shares that they are two troubles: neither by chance, nor by
    /// little.
    fn differs_from(&self, other: &Self) -> bool {
        let [one, other] = [self, other].map(|it| Votes {
            sent: it.sent,
            lost: it.lost,
        });
        let [less, more] = [
            one.share().min(other.share()),
            one.share().max(other.share()),
        ];
        one.evidence(other) >= CLEARS_HOST && more > CLEARLY_MORE * less
    }
}

impl Suspect {
    /// Whether it loses more of these probes than the rest of them, and by so much evidence.
    fn outweighs(self, probes: &[&Probe], least: f64, ground: &Ground) -> bool {
        let mut all = Votes::default();
        probes.iter().for_each(|probe| all.add(probe));
        let votes = self.votes(probes, ground);
        let rest = all.without(votes);
        votes.share() > rest.share() && votes.evidence(rest) >= least
    }

    fn votes(self, probes: &[&Probe], ground: &Ground) -> Votes {
        let mut votes = Votes::default();
        let touched = probes.iter().filter(|it| self.touches(it, ground));
        touched.for_each(|probe| votes.add(probe));
        votes
    }

    pub(super) fn touches(self, probe: &Probe, ground: &Ground) -> bool {
        match self {
            Self::Host(host) => ground.has_to_do_with(probe, host),
            Self::Switch(switch) => ground.passes(probe, switch),
            Self::Hop(hop) => probe.hops.contains(&hop),
            Self::Link(hop) => probe.hops.iter().any(|it| it / 2 == hop / 2),
        }
    }

    /// By how much another one may be less likely and still be it: a switch is cleared of what one of its
    /// ports loses with the same care as a host.
    fn margin(self, other: Self, ground: &Ground) -> f64 {
        match (self, other) {
            (Self::Hop(hop), Self::Switch(switch)) if ground.is_at(hop, switch) => CLEARS_HOST,
            _ => AMBIGUOUS,
        }
    }
}

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let lost = Lost::of(evidence, fabric)?;
    let found = lost.culprits.into_iter().map(|(culprit, subjects)| {
        let mut finding = finding(&culprit, subjects, evidence, fabric);
        let first = culprit.suspects[0];
        let supposed = lost.vanished.said_of(first, &lost.ground);
        finding.evidence.extend(supposed);
        (finding, culprit)
    });
    let is_alike = |one: &Culprit, other: &Culprit| !one.differs_from(other);
    let mut found = cables::joined(found.collect(), fabric, is_alike);
    found.extend(lost.vanished.findings(fabric));
    Ok(found)
}

/// By link that loses probes, or may be it: the share that it loses.
pub fn losses(
    Sifted(evidence): &Sifted,
    fabric: &Fabric,
) -> Result<BTreeMap<LinkId, f64>, EvidenceError> {
    let mut losses = BTreeMap::new();
    for (culprit, _) in Lost::of(evidence, fabric)?.culprits {
        let share = culprit.lost as f64 / culprit.sent.max(1) as f64 - culprit.elsewhere;
        for suspect in &culprit.suspects {
            if let Suspect::Hop(hop) | Suspect::Link(hop) = suspect {
                let known: &mut f64 = losses.entry(LinkId::from_index(hop / 2)).or_default();
                *known = known.max(share);
            }
        }
    }
    Ok(losses)
}

/// What is said where many probes got lost, and nothing tells where.
pub(super) fn scattered(evidence: &Evidence, fabric: &Fabric) -> Option<String> {
    let lost = Lost::of(evidence, fabric).ok()?;
    let is_named = !lost.culprits.is_empty() || !lost.vanished.findings(fabric).is_empty();
    let mut all = Votes::default();
    lost.probes.iter().for_each(|probe| all.add(probe));
    let is_much = all.lost >= FEWEST_LOST && all.share() >= WORTH_A_WORD;
    (is_much && !is_named).then(|| {
        let Votes { sent, lost } = all;
        format!("{lost} of {sent} probes got lost, and nothing tells where")
    })
}

/// Who loses probes, and of whom it is said.
type Named = Vec<(Culprit, Vec<Subject>)>;

/// Where probes get lost, those too whose ways are not known to their ends.
struct Lost {
    probes: Vec<Probe>,
    ground: Ground,
    culprits: Named,
    vanished: Vanished,
}

impl Lost {
    fn of(evidence: &Evidence, fabric: &Fabric) -> Result<Self, EvidenceError> {
        let mut atlas = Atlas::new(fabric);
        let mut probes = traced(&atlas, evidence, |probed| Some([probed.sent, probed.lost]))?;
        let vanished = Vanished::of(&mut atlas, evidence, &probes)?;
        probes.extend(vanished.placed.iter().cloned());
        let ground = Ground::of(&atlas);
        Ok(Self {
            culprits: named(&atlas, &ground, &probes),
            probes,
            ground,
            vanished,
        })
    }
}

/// Who loses of what is counted of probes on known ways: how many were sent, and lost.
pub(super) fn by_ways(
    evidence: &Evidence,
    fabric: &Fabric,
    counted: impl Fn(&Probed) -> Option<[u64; 2]>,
) -> Result<Named, EvidenceError> {
    let atlas = Atlas::new(fabric);
    let probes = traced(&atlas, evidence, counted)?;
    Ok(named(&atlas, &Ground::of(&atlas), &probes))
}

fn named(atlas: &Atlas<'_>, ground: &Ground, probes: &[Probe]) -> Named {
    let found = localise(ground, probes).into_iter();
    let with_subjects = found.map(|culprit| {
        let subjects = subjects(atlas, &culprit);
        (culprit, subjects)
    });
    with_subjects.collect()
}

/// Those whose ways are known.
fn traced(
    atlas: &Atlas<'_>,
    evidence: &Evidence,
    counted: impl Fn(&Probed) -> Option<[u64; 2]>,
) -> Result<Vec<Probe>, EvidenceError> {
    let is_known = |it: &&Probed| !it.path.iter().any(|name| name == UNKNOWN);
    let probes = evidence.probes.iter().filter(is_known);
    let probe = |probed: &Probed| {
        let counts = counted(probed)?;
        Some(crossed(atlas, probed, counts))
    };
    probes.filter_map(probe).collect()
}

fn crossed(
    atlas: &Atlas<'_>,
    probed: &Probed,
    [sent, lost]: [u64; 2],
) -> Result<Probe, EvidenceError> {
    let way = passages(atlas.fabric, &probed.path, &probed.links)?;
    let first = way.first().map(|it| it.hop.from);
    let first = first.filter(|&node| atlas.fabric.node(node).role != Role::Switch);
    let ends = [first, farthest(atlas, &way)];
    let hops = way.iter().flat_map(|it| it.each(atlas.fabric));
    let mut hops: Vec<_> = hops.map(|hop| atlas.index(hop)).collect();
    hops.sort_unstable();
    hops.dedup();
    Ok(Probe {
        hops,
        hosts: ends.map(|node| node.map(NodeId::index)),
        sent,
        lost,
    })
}

/// Of whom a finding about it speaks.
fn subjects(atlas: &Atlas<'_>, culprit: &Culprit) -> Vec<Subject> {
    let fabric = atlas.fabric;
    let node = |index: usize| fabric.name(NodeId::from_index(index)).to_owned();
    let subject = |suspect: &Suspect| match *suspect {
        Suspect::Host(index) => Subject::Host(node(index)),
        Suspect::Switch(index) => Subject::Switch(node(index)),
        Suspect::Hop(index) => subject_of(fabric, atlas.hop(index)),
        Suspect::Link(index) => link_of(fabric, atlas.hop(index)),
    };
    let subjects: Vec<_> = culprit.suspects.iter().map(subject).collect();
    match culprit.may_be_host {
        true => subjects,
        false => host_before_link(subjects),
    }
}

/// The host at the other end, also where a path leads there and back; but who forwards for others has handed on
/// what came back.
fn farthest(atlas: &Atlas<'_>, way: &[Passage]) -> Option<NodeId> {
    let role = |node: &NodeId| atlas.fabric.node(*node).role;
    let (first, last) = (way.first()?.hop.from, atlas.far(way.last()?.hop));
    if last != first {
        return Some(last).filter(|node| role(node).is_endpoint());
    }
    let mut passed = way.iter().map(|it| atlas.far(it.hop));
    passed.find(|node| role(node) == Role::Host && *node != first)
}

fn finding(
    culprit: &Culprit,
    mut subjects: Vec<Subject>,
    evidence: &Evidence,
    fabric: &Fabric,
) -> Cause {
    let dropping = dropping(&subjects, evidence, fabric);
    if let [(place, _)] = dropping[..] {
        subjects = vec![subjects.swap_remove(place)];
    }
    let class = match subjects[0] {
        Subject::Host(_) => Class::FaultyHost,
        Subject::Switch(_) => Class::FaultySwitch,
        _ => Class::LossyLink,
    };
    let Culprit { sent, lost, .. } = *culprit;
    let elsewhere = 100.0 * culprit.elsewhere;
    let said = format!("{lost} of {sent} probes lost there, {elsewhere:.2} % elsewhere");
    let confidence = 1.0 / (subjects.len() as f64) * (1.0 - libm::exp(-culprit.evidence / 8.0));
    let subject = match subjects.len() {
        1 => subjects.remove(0),
        _ => Subject::either(subjects),
    };
    let mut finding = class.cause(subject, confidence, said);
    if let [(_, said)] = &dropping[..] {
        finding.evidence.push(said.clone());
    }
    finding
}

/// Which of several hops drop what they have to send, by the counters of their senders.
fn dropping(subjects: &[Subject], evidence: &Evidence, fabric: &Fabric) -> Vec<(usize, String)> {
    let drops = |(place, subject): (usize, &Subject)| match subject {
        Subject::Hop { from, to, link } => {
            let mut ports = evidence.ports.iter().filter(|port| port.send_drops > 0);
            let port = ports.find(|port| {
                port.node == *from && port.peer == *to && port.may_be_of(fabric, link)
            })?;
            let said = format!(
                "{from} dropped {} packets on the way to {to}",
                port.send_drops
            );
            Some((place, said))
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
