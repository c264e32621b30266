//! Locates losses: from counts of probes to findings.

use std::collections::BTreeMap;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};

use super::change::MIN_LOSS_SHARE;
use super::error::EvidenceError;
use super::evidence::{Evidence, Probed, UNKNOWN_NODE, link_of, subject_of};
use super::localise::{Culprit, Probe, Suspect, localise};
use super::passages::{Passage, goes_round, passages};
use super::vanished::Vanished;
use super::votes::{Ground, MIN_LOST_PROBES, Votes};
use super::{Cause, Class, Sifted, Subject, cables};
use crate::paths::Atlas;

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

/// Returns the loss of each link that loses probes, or may do so.
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

/// The finding where many probes got lost and no evidence shows where.
pub(super) fn scattered(evidence: &Evidence, fabric: &Fabric) -> Option<String> {
    let lost = Lost::of(evidence, fabric).ok()?;
    let is_named = !lost.culprits.is_empty() || !lost.vanished.findings(fabric).is_empty();
    let all = Votes::of(&lost.probes);
    let is_much = all.lost >= MIN_LOST_PROBES && all.share() >= MIN_LOSS_SHARE;
    (is_much && !is_named).then(|| {
        let Votes { sent, lost, .. } = all;
        format!("{lost} of {sent} probes were lost at an unknown place")
    })
}

/// Culprits with the subjects of their findings.
type Named = Vec<(Culprit, Vec<Subject>)>;

/// Places of loss, including probes whose paths are only partly known.
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

/// Returns the culprits from counts of sent and lost probes on known paths.
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

/// Returns the probes with known paths.
fn traced(
    atlas: &Atlas<'_>,
    evidence: &Evidence,
    counted: impl Fn(&Probed) -> Option<[u64; 2]>,
) -> Result<Vec<Probe>, EvidenceError> {
    let is_known = |it: &&Probed| {
        let is_whole = !it.path.iter().any(|name| name == UNKNOWN_NODE);
        is_whole && goes_round(&it.path).is_none()
    };
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

/// Returns the subjects of a finding about a culprit.
fn subjects(atlas: &Atlas<'_>, culprit: &Culprit) -> Vec<Subject> {
    let fabric = atlas.fabric;
    let node = |index: usize| fabric.name(NodeId::from_index(index)).to_owned();
    culprit
        .suspects
        .iter()
        .map(|suspect| match *suspect {
            Suspect::Host(index) => Subject::Host(node(index)),
            Suspect::Switch(index) => Subject::Switch(node(index)),
            Suspect::Hop(index) => subject_of(fabric, atlas.hop(index)),
            Suspect::Link(index) => link_of(fabric, atlas.hop(index)),
        })
        .collect()
}

/// Returns the host at the other end, also on a round-trip path; a forwarding host has passed the answer on.
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

/// Returns which of several hops drop packets before sending, by the counters of their senders.
fn dropping(subjects: &[Subject], evidence: &Evidence, fabric: &Fabric) -> Vec<(usize, String)> {
    subjects
        .iter()
        .enumerate()
        .filter_map(|(place, subject)| match subject {
            Subject::Hop { from, to, link } => {
                let mut ports = evidence.ports.iter().filter(|port| port.send_drops > 0);
                let port = ports.find(|port| {
                    port.node == *from && port.peer == *to && port.may_be_of(fabric, link)
                })?;
                let said = format!("{from} dropped {} packets towards {to}", port.send_drops);
                Some((place, said))
            }
            _ => None,
        })
        .collect()
}
