//! Hosts that are slow by themselves.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;

use super::error::EvidenceError;
use super::evidence::{Evidence, FlowFacts, HostFacts};
use super::routes::{Loads, MIN_ELEPHANT_SHARE, Sent, rate};
use super::{Cause, Class, Subject};

/// Maximum ratio of the rate of each flow of a slow host to the median rate of other flows.
const MAX_SLOW_RATIO: f64 = 0.7;
/// Minimum number of other hosts that a slow host has flows with, and of flows between others.
const MIN_PEERS: usize = 2;
/// Minimum number of readings: a single one may fall on a start, a pause or an end of a flow.
const MIN_READINGS: usize = 3;

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let degraded: Vec<_> = evidence.hosts.iter().filter_map(downgrade).collect();
    let is_known = |finding: &Cause| degraded.iter().any(|it| it.subject == finding.subject);
    let mut slow = stragglers(&Loads::new(evidence, fabric)?, fabric);
    slow.retain(|finding| !is_known(finding));
    Ok(degraded.into_iter().chain(slow).collect())
}

fn downgrade(host: &HostFacts) -> Option<Cause> {
    let below = |now: Option<f64>, most: Option<f64>| Some(now? < most?).filter(|&is| is);
    let lanes = |lanes: Option<u32>| lanes.map(f64::from);
    let speed = below(host.pcie_gts, host.pcie_most_gts);
    let narrow = below(lanes(host.pcie_lanes), lanes(host.pcie_most_lanes));
    speed.or(narrow)?;
    let bus = |gts: Option<f64>, lanes: Option<u32>| {
        let known = [
            gts.map(|it| format!("{it} GT/s")),
            lanes.map(|it| format!("x{it}")),
        ];
        known.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    let said = format!(
        "its NIC runs at {} and could at {}",
        bus(host.pcie_gts, host.pcie_lanes),
        bus(host.pcie_most_gts, host.pcie_most_lanes),
    );
    Some(Class::PcieDowngrade.cause(Subject::Host(host.host.clone()), 0.95, said))
}

/// Finds hosts whose flows are all slow in both directions, while other flows of the same job are not. Flows of other jobs are
/// not compared. Flows that a full link holds back show nothing about their hosts.
fn stragglers(loads: &Loads<'_>, fabric: &Fabric) -> Vec<Cause> {
    let mut jobs: BTreeMap<Option<&str>, Vec<Heard<'_>>> = BTreeMap::new();
    for sent in loads.flows().filter(|it| !loads.are_held_back(fabric, it)) {
        let flows = jobs.entry(sent.1.job.as_deref()).or_default();
        flows.extend(Heard::of(sent, fabric));
    }
    let found = jobs.values().flat_map(|flows| stragglers_of(flows));
    found.collect()
}

fn stragglers_of(flows: &[Heard<'_>]) -> Vec<Cause> {
    let hosts: BTreeSet<_> = flows.iter().flat_map(|it| it.ends).collect();
    let found = hosts.into_iter().filter_map(|host| straggler(host, flows));
    found.collect()
}

fn straggler(host: &str, flows: &[Heard<'_>]) -> Option<Cause> {
    let (own, others): (Vec<_>, Vec<_>) = flows.iter().partition(|it| it.ends.contains(&host));
    let reports = others.iter().filter(|it| it.is_measured());
    let mut reports: Vec<_> = reports.map(|it| it.flow.gbps).collect();
    let usual = median(&mut reports);
    let peers: BTreeSet<_> = own.iter().flat_map(|it| it.ends).collect();
    let is_both_ways = (0..2).all(|side| own.iter().any(|it| it.ends[side] == host));
    // The host itself is one of them.
    let is_seen = is_both_ways && peers.len() > MIN_PEERS && reports.len() >= MIN_PEERS;
    let is_slow = own.iter().all(|it| it.is_below(usual));
    (is_seen && is_slow).then(|| {
        let (count, usual) = (own.len(), rate(usual));
        let said = format!("all its {count} flows are slow both ways: others get {usual}");
        Class::Straggler.cause(Subject::Host(host.to_owned()), 0.85, said)
    })
}

/// A flow from host to host.
struct Heard<'e> {
    ends: [&'e str; 2],
    flow: &'e FlowFacts,
    /// Capacity of the narrower of its hosts' links.
    width_gbps: f64,
}

impl<'e> Heard<'e> {
    fn of((hops, flow): &Sent<'e>, fabric: &'e Fabric) -> Option<Self> {
        let (first, last) = (hops.first()?, hops.last()?);
        let to = fabric.link(last.link).far(last.from).node;
        let widths = [first, last].map(|hop| fabric.link(hop.link).rate.gbps());
        Some(Self {
            ends: [first.from, to].map(|node| fabric.name(node)),
            flow,
            width_gbps: widths[0].min(widths[1]),
        })
    }

    fn is_measured(&self) -> bool {
        self.flow.readings.is_none_or(|it| it >= MIN_READINGS)
    }

    /// Whether its highest reading is far below the usual rate of other flows. A usual rate that is low for these ports shows
    /// nothing.
    fn is_below(&self, usual: f64) -> bool {
        let most = self.flow.most_gbps.unwrap_or(self.flow.gbps);
        self.is_measured()
            && usual >= MIN_ELEPHANT_SHARE * self.width_gbps
            && most < MAX_SLOW_RATIO * usual
    }
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
