//! Hosts that are slow by themselves.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;

use super::evidence::{Evidence, EvidenceError, HostFacts};
use super::routes::Loads;
use super::{Cause, Class, Subject};

/// What all its flows get, against the others' median, on a host that is slow.
const SLOW: f64 = 0.7;
/// As many others must agree that it is slow.
const FEWEST_PEERS: usize = 2;

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

/// All flows of one host are slow, those it sends and those it receives, while the others' are not.
/// What a full link holds back says nothing of its hosts.
fn stragglers(loads: &Loads, fabric: &Fabric) -> Vec<Cause> {
    let mut rates: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
    let mut peers: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut all = Vec::new();
    for (hops, gbps) in loads.flows().filter(|it| !loads.are_held_back(fabric, it)) {
        let (Some(first), Some(last)) = (hops.first(), hops.last()) else {
            continue;
        };
        let to = fabric.link(last.link).far(last.from).node;
        let ends = [first.from, to].map(|node| fabric.name(node));
        for (side, end) in ends.into_iter().enumerate() {
            rates.entry(end).or_default()[side].push(*gbps);
            peers.entry(end).or_default().insert(ends[1 - side]);
        }
        all.push(*gbps);
    }
    let usual = median(&mut all);
    let slow = rates.into_iter().filter(|(host, ways)| {
        let is_slow =
            |rates: &Vec<f64>| !rates.is_empty() && rates.iter().all(|&gbps| gbps < SLOW * usual);
        peers[host].len() >= FEWEST_PEERS && ways.iter().all(is_slow)
    });
    let finding = |(host, [sent, received]): (&str, [Vec<f64>; 2])| {
        let count = sent.len() + received.len();
        let said = format!("all its {count} flows are slow both ways: others get {usual:.1} Gb/s");
        Class::Straggler.cause(Subject::Host(host.to_owned()), 0.85, said)
    };
    slow.map(finding).collect()
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
