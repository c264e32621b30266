//! What ways and rates of flows say: collisions, incast, lopsided routes, slow pairs.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Fabric, Role};
use reweave_common::snapshot::Hop;

use super::evidence::{Evidence, EvidenceError, PairFacts, hops, node, subject_of};
use super::hosts::median;
use super::{Cause, Class, Subject};
use crate::paths::Atlas;

/// A link that carries this share of its capacity is full.
const FULL: f64 = 0.9;
/// A link that carries less has room.
const ROOM: f64 = 0.6;
/// So many senders to one receiver are no chance meeting.
const INCAST: usize = 3;
/// A flow with this share of a link is worth a move.
const ELEPHANT: f64 = 0.1;
/// A pair this far below its peers is slow.
const SLOW_PAIR: f64 = 0.7;
/// So few show no median.
const FEWEST_PAIRS: usize = 2;

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let loads = Loads::new(evidence, fabric)?;
    let mut findings = loads.collisions(fabric);
    findings.extend(loads.incasts(fabric));
    findings.extend(
        evidence
            .traces
            .iter()
            .filter(|it| it.hops_there != it.hops_back)
            .map(|it| {
                let said = format!("{} hops there, {} back", it.hops_there, it.hops_back);
                let pair = Subject::Pair([it.from.clone(), it.to.clone()]);
                Class::AsymmetricRoute.cause(pair, 0.9, said)
            }),
    );
    findings.extend(slow_pairs(evidence, fabric)?);
    Ok(findings)
}

/// The way of a flow, and what it gets.
type Sent = (Vec<Hop>, f64);

/// What flows bring onto each hop; flows of which a hop is not known are no evidence.
pub(super) struct Loads {
    flows: Vec<Sent>,
    on: BTreeMap<Hop, f64>,
}

impl Loads {
    pub(super) fn new(evidence: &Evidence, fabric: &Fabric) -> Result<Self, EvidenceError> {
        let (mut flows, mut on) = (Vec::new(), BTreeMap::new());
        for flow in &evidence.flows {
            let hops = hops(fabric, &flow.path)?;
            if hops.len() + 1 == flow.path.len() {
                hops.iter()
                    .for_each(|&hop| *on.entry(hop).or_default() += flow.gbps);
                flows.push((hops, flow.gbps));
            }
        }
        Ok(Self { flows, on })
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = &Sent> {
        self.flows.iter()
    }

    pub(super) fn are_held_back(&self, fabric: &Fabric, (hops, _): &Sent) -> bool {
        hops.iter().any(|&hop| self.share(fabric, hop) >= FULL)
    }

    fn share(&self, fabric: &Fabric, hop: Hop) -> f64 {
        self.on.get(&hop).copied().unwrap_or(0.0) / fabric.link(hop.link).rate.gbps()
    }

    fn over(&self, hop: Hop) -> impl Iterator<Item = &Sent> {
        self.flows
            .iter()
            .filter(move |(hops, _)| hops.contains(&hop))
    }

    fn collisions(&self, fabric: &Fabric) -> Vec<Cause> {
        let mut atlas = Atlas::new(fabric);
        let full = self
            .on
            .keys()
            .copied()
            .filter(|&hop| self.share(fabric, hop) >= FULL);
        let full: Vec<_> = full.collect();
        full.into_iter()
            .filter_map(|hop| self.collision(&mut atlas, hop))
            .collect()
    }

    fn collision(&self, atlas: &mut Atlas<'_>, hop: Hop) -> Option<Cause> {
        let fabric = atlas.fabric;
        let capacity = fabric.link(hop.link).rate.gbps();
        let elephants = self
            .over(hop)
            .filter(|(_, gbps)| *gbps >= ELEPHANT * capacity);
        let elephants: Vec<_> = elephants.collect();
        let (path, _) = elephants.first().filter(|_| elephants.len() > 1)?;
        let to = atlas.far(*path.last()?);
        let links = atlas.choices(hop.from, to).into_iter();
        let others = links
            .map(|link| Hop { link, ..hop })
            .filter(|&other| other != hop);
        let room = others
            .filter(|&other| self.share(fabric, other) < ROOM)
            .count();
        let ends: BTreeSet<_> = elephants
            .iter()
            .filter_map(|(hops, _)| hops.last())
            .collect();
        if room == 0 || ends.len() == 1 {
            return None;
        }
        let said = format!(
            "{} large flows share it at {:.0} % while {room} equal links have room",
            elephants.len(),
            100.0 * self.share(fabric, hop)
        );
        Some(Class::EcmpCollision.cause(subject_of(fabric, hop), 0.9, said))
    }

    /// A full last hop with many senders, none of which is held back before.
    fn incasts(&self, fabric: &Fabric) -> Vec<Cause> {
        let last = |hop: &Hop| {
            let to = fabric.link(hop.link).far(hop.from).node;
            fabric.node(to).role == Role::Host && self.share(fabric, *hop) >= FULL
        };
        let finding = |hop: Hop| {
            let senders: BTreeSet<_> = self.over(hop).map(|(hops, _)| hops[0].from).collect();
            let mut before = self.over(hop).flat_map(|(hops, _)| &hops[..hops.len() - 1]);
            let held_before = before.any(|&hop| self.share(fabric, hop) >= FULL);
            let to = fabric.link(hop.link).far(hop.from).node;
            let said = format!("{} hosts fill the last link to it at once", senders.len());
            let subject = Subject::Host(fabric.name(to).to_owned());
            let incast = senders.len() >= INCAST && !held_before;
            incast.then(|| Class::Incast.cause(subject, 0.85, said))
        };
        self.on
            .keys()
            .copied()
            .filter(last)
            .filter_map(finding)
            .collect()
    }
}

/// Pairs of one rail and the same distance should be alike. A host that is slow to and from all others
/// is one finding, and so it is if they are all slow to it.
fn slow_pairs(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let slow = below_peers(evidence, fabric)?;
    let pairs = |host: &str| {
        let mut pairs = evidence.pairs.iter().zip(&slow);
        let all = pairs
            .clone()
            .filter(|(pair, _)| concerns(pair, host))
            .count();
        all > FEWEST_PAIRS && pairs.all(|(pair, slow)| slow.is_some() || !concerns(pair, host))
    };
    let hosts: BTreeSet<_> = evidence
        .pairs
        .iter()
        .flat_map(|it| [&it.from, &it.to])
        .collect();
    let slow_hosts: BTreeSet<_> = hosts.into_iter().filter(|host| pairs(host)).collect();
    let of_pairs = evidence.pairs.iter().zip(&slow);
    let finding = |(pair, said): (&PairFacts, &Option<String>)| {
        let ends = [&pair.from, &pair.to];
        let host = ends.into_iter().find(|end| slow_hosts.contains(end));
        let pair = || Subject::Pair(ends.map(String::clone));
        let subject = host.map_or_else(pair, |host| Subject::Host(host.clone()));
        Some(Class::SlowPair.cause(subject, 0.8, said.clone()?))
    };
    Ok(of_pairs.filter_map(finding).collect())
}

fn concerns(pair: &PairFacts, host: &str) -> bool {
    pair.from == host || pair.to == host
}

/// By pair: what is said of it, if it is slow.
fn below_peers(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Option<String>>, EvidenceError> {
    let mut peers: BTreeMap<(u32, bool), Vec<f64>> = BTreeMap::new();
    let atlas = Atlas::new(fabric);
    let kind = |from: &str, to: &str, rail| {
        let [from, to] = [node(fabric, from)?, node(fabric, to)?];
        Ok((rail, atlas.door(from) == atlas.door(to)))
    };
    let mut kinds = Vec::new();
    for pair in &evidence.pairs {
        let kind = kind(&pair.from, &pair.to, pair.rail)?;
        peers.entry(kind).or_default().push(pair.gbps);
        kinds.push(kind);
    }
    let usual: BTreeMap<_, _> = peers
        .iter_mut()
        .map(|(kind, rates)| (*kind, (rates.len(), median(rates))))
        .collect();
    let slow = evidence.pairs.iter().zip(kinds).map(|(pair, kind)| {
        let (count, usual) = usual[&kind];
        let is_slow = count > FEWEST_PAIRS && pair.gbps < SLOW_PAIR * usual;
        let place = if kind.1 {
            "in its rack"
        } else {
            "across racks"
        };
        let (from, to, rail, gbps) = (&pair.from, &pair.to, pair.rail, pair.gbps);
        is_slow.then(|| {
            format!(
                "{from} to {to} {gbps:.2} Gb/s, where pairs {place} on rail {rail} have {usual:.2}"
            )
        })
    });
    Ok(slow.collect())
}
