//! Findings from paths and rates of flows: collisions, incast, lopsided routes, slow pairs.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Fabric, Nic, NicUse, Role};
use reweave_common::ids::NodeId;
use reweave_common::snapshot::Hop;
use reweave_common::units::Rate;

use super::error::EvidenceError;
use super::evidence::{Evidence, FlowFacts, PairFacts, Trace, node, subject_of};
use super::hosts::median;
use super::passages::{comes_twice, passages};
use super::{Cause, Class, Subject};
use crate::paths::Atlas;

/// A link that carries this share of its capacity is full.
const MIN_FULL_SHARE: f64 = 0.9;
/// A link that carries less has room.
const MAX_ROOMY_SHARE: f64 = 0.6;
/// Minimum number of senders to one receiver that are no coincidence.
const MIN_INCAST_SENDERS: usize = 3;
/// Least share of a link for a flow that is worth moving.
pub(super) const MIN_ELEPHANT_SHARE: f64 = 0.1;
/// A pair this far below its peers is slow.
const MAX_SLOW_PAIR_RATIO: f64 = 0.7;
/// Minimum number of pairs for a median.
const MIN_PEER_PAIRS: usize = 2;

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let loads = Loads::new(evidence, fabric)?;
    let mut findings = loads.collisions(fabric);
    findings.extend(loads.incasts(fabric));
    findings.extend(
        evidence
            .traces
            .iter()
            .filter(|it| it.hops_there != it.hops_back)
            .map(asymmetric),
    );
    findings.extend(slow_pairs(evidence, fabric)?);
    Ok(findings)
}

/// Both ends may report it. They count as one pair.
fn asymmetric(trace: &Trace) -> Cause {
    let Trace { from, to, .. } = trace;
    let said = format!(
        "{from} to {to}: {} hops there, {} back",
        trace.hops_there, trace.hops_back
    );
    let mut pair = [from.clone(), to.clone()];
    pair.sort();
    Class::AsymmetricRoute.cause(Subject::Pair(pair), 0.9, said)
}

/// The path of a flow, and what is reported of it.
pub(super) type Sent<'e> = (Vec<Hop>, &'e FlowFacts);

/// Load of flows on each hop; flows with an unknown hop are no evidence.
pub(super) struct Loads<'e> {
    flows: Vec<Sent<'e>>,
    on: BTreeMap<Hop, f64>,
}

impl<'e> Loads<'e> {
    pub(super) fn new(evidence: &'e Evidence, fabric: &Fabric) -> Result<Self, EvidenceError> {
        let (mut flows, mut on) = (Vec::new(), BTreeMap::new());
        for flow in &evidence.flows {
            let way = passages(fabric, &flow.path, &flow.links)?;
            let hops: Vec<_> = way
                .iter()
                .filter(|it| it.is_sure)
                .map(|it| it.hop)
                .collect();
            let is_known = hops.len() + 1 == flow.path.len();
            if is_known && comes_twice(&flow.path).is_none() {
                hops.iter()
                    .for_each(|&hop| *on.entry(hop).or_default() += flow.gbps);
                flows.push((hops, flow));
            }
        }
        Ok(Self { flows, on })
    }

    pub(super) fn flows(&self) -> impl Iterator<Item = &Sent<'e>> {
        self.flows.iter()
    }

    pub(super) fn are_held_back(&self, fabric: &Fabric, (hops, _): &Sent<'_>) -> bool {
        hops.iter()
            .any(|&hop| self.share(fabric, hop) >= MIN_FULL_SHARE)
    }

    fn share(&self, fabric: &Fabric, hop: Hop) -> f64 {
        self.on.get(&hop).copied().unwrap_or(0.0) / fabric.link(hop.link).rate.gbps()
    }

    fn over(&self, hop: Hop) -> impl Iterator<Item = &Sent<'e>> {
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
            .filter(|&hop| self.share(fabric, hop) >= MIN_FULL_SHARE);
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
            .filter(|(_, flow)| flow.gbps >= MIN_ELEPHANT_SHARE * capacity);
        let elephants: Vec<_> = elephants.collect();
        let (path, _) = elephants.first().filter(|_| elephants.len() > 1)?;
        let to = atlas.far(*path.last()?);
        let links = atlas.choices(hop.from, to).into_iter();
        let others = links
            .map(|link| Hop { link, ..hop })
            .filter(|&other| other != hop);
        let room = others
            .filter(|&other| self.share(fabric, other) < MAX_ROOMY_SHARE)
            .count();
        let ends: BTreeSet<_> = elephants
            .iter()
            .filter_map(|(hops, _)| hops.last())
            .collect();
        if room == 0 || ends.len() == 1 {
            return None;
        }
        let said = format!(
            "{} large flows share it at {} while {room} equal links have room",
            elephants.len(),
            filled(self.share(fabric, hop))
        );
        Some(Class::EcmpCollision.cause(subject_of(fabric, hop), 0.9, said))
    }

    /// Finds full last hops with many senders, none of which is limited before.
    fn incasts(&self, fabric: &Fabric) -> Vec<Cause> {
        let last = |hop: &Hop| {
            let to = fabric.link(hop.link).far(hop.from).node;
            fabric.node(to).role.is_endpoint() && self.share(fabric, *hop) >= MIN_FULL_SHARE
        };
        self.on
            .keys()
            .copied()
            .filter(last)
            .filter_map(|hop| {
                // Without the routes that are passed on from there.
                let ends_there = |(hops, _): &&Sent<'_>| hops.last() == Some(&hop);
                let ending = || self.over(hop).filter(ends_there);
                let senders: BTreeSet<_> = ending().map(|(hops, _)| hops[0].from).collect();
                let mut before = ending().flat_map(|(hops, _)| &hops[..hops.len() - 1]);
                let held_before = before.any(|&hop| self.share(fabric, hop) >= MIN_FULL_SHARE);
                let to = fabric.link(hop.link).far(hop.from).node;
                let said = format!("{} hosts fill the last link to it at once", senders.len());
                let subject = Subject::Host(fabric.name(to).to_owned());
                let incast = senders.len() >= MIN_INCAST_SENDERS && !held_before;
                incast.then(|| Class::Incast.cause(subject, 0.85, said))
            })
            .collect()
    }
}

/// Comparison of a pair with its peers: pairs on the same rail at the same distance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BesidePeers {
    /// Whether both are at the same switch.
    pub in_rack: bool,
    /// The median of all of them.
    pub usual_gbps: f64,
    /// Number of peers, including the pair itself.
    pub peers: usize,
    /// Whether it is far enough below them to be a finding.
    pub is_slow: bool,
}

/// Compares pairs on one rail at the same distance, which should be equal. A host that is slow to and from all others
/// is one finding.
fn slow_pairs(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let beside = beside_peers(&evidence.pairs, fabric)?;
    let pairs = |host: &str| {
        let mut pairs = evidence.pairs.iter().zip(&beside);
        let all = pairs
            .clone()
            .filter(|(pair, _)| concerns(pair, host))
            .count();
        all > MIN_PEER_PAIRS && pairs.all(|(pair, it)| it.is_slow || !concerns(pair, host))
    };
    let hosts: BTreeSet<_> = evidence
        .pairs
        .iter()
        .flat_map(|it| [&it.from, &it.to])
        .collect();
    let slow_hosts: BTreeSet<_> = hosts.into_iter().filter(|host| pairs(host)).collect();
    let slow = evidence.pairs.iter().zip(&beside);
    let slow = slow.filter(|(_, beside)| beside.is_slow);
    let finding = |(pair, beside): (&PairFacts, &BesidePeers)| {
        let ends = [&pair.from, &pair.to];
        let host = ends.into_iter().find(|end| slow_hosts.contains(end));
        let pair_of = || Subject::Pair(ends.map(String::clone));
        let subject = host.map_or_else(pair_of, |host| Subject::Host(host.clone()));
        Class::SlowPair.cause(subject, 0.8, beside.said_of(pair))
    };
    Ok(slow.map(finding).collect())
}

fn concerns(pair: &PairFacts, host: &str) -> bool {
    pair.from == host || pair.to == host
}

/// Returns the comparisons in the order of the pairs.
pub fn beside_peers(
    pairs: &[PairFacts],
    fabric: &Fabric,
) -> Result<Vec<BesidePeers>, EvidenceError> {
    let mut peers: BTreeMap<(u32, bool), Vec<f64>> = BTreeMap::new();
    let mut kinds = Vec::new();
    for pair in pairs {
        let [from, to] = [node(fabric, &pair.from)?, node(fabric, &pair.to)?];
        let [near, far] = [from, to].map(|host| rack(fabric, host, pair.rail));
        let kind = (pair.rail, near == far);
        peers.entry(kind).or_default().push(pair.gbps);
        kinds.push(kind);
    }
    let usual: BTreeMap<_, _> = peers
        .iter_mut()
        .map(|(kind, rates)| (*kind, (rates.len(), median(rates))))
        .collect();
    let beside = pairs.iter().zip(kinds).map(|(pair, kind)| {
        let (peers, usual_gbps) = usual[&kind];
        BesidePeers {
            in_rack: kind.1,
            usual_gbps,
            peers,
            is_slow: peers > MIN_PEER_PAIRS && pair.gbps < MAX_SLOW_PAIR_RATIO * usual_gbps,
        }
    });
    Ok(beside.collect())
}

/// Flows that are counted at different moments may bring more than the link carries at any.
fn filled(share: f64) -> String {
    if share > 1.0 {
        "100 %".to_owned()
    } else {
        format!("{:.0} %", 100.0 * share)
    }
}

pub(super) fn rate(gbps: f64) -> Rate {
    Rate::from_bits_per_s((gbps * 1e9).round() as u64)
}

/// Returns the switch of a host on this rail, or the host itself. A relay has no NICs: the place of the link among its
/// links counts.
fn rack(fabric: &Fabric, host: NodeId, rail: u32) -> NodeId {
    let mut nics = fabric.nics_of(host).iter().map(|&nic| fabric.nic(nic));
    let is_on = |nic: &&Nic| nic.purpose == NicUse::Training && u32::from(nic.rail) == rail;
    let of_nic = nics.find(is_on).map(|nic| nic.link);
    let link = of_nic.or_else(|| fabric.links_of(host).get(rail as usize).copied());
    let far = link.map(|link| fabric.link(link).far(host).node);
    far.filter(|&far| fabric.node(far).role == Role::Switch)
        .unwrap_or(host)
}

impl BesidePeers {
    fn said_of(self, pair: &PairFacts) -> String {
        let place = if self.in_rack {
            "in its rack"
        } else {
            "across racks"
        };
        let PairFacts { from, to, rail, .. } = pair;
        let [rate, usual] = [pair.gbps, self.usual_gbps].map(rate);
        format!("{from} to {to} {rate}, where pairs {place} on rail {rail} have {usual}")
    }
}
