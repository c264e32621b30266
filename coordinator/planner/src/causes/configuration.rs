//! Settings that differ where they should not.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;

use super::evidence::{Evidence, EvidenceError, HostFacts, PortFacts, UnsentFacts};
use super::routes::rate;
use super::{Cause, Class, Subject, mtu};

/// Fewer hosts than these have no majority to differ from.
const FEWEST: usize = 3;
/// Clocks further apart than this tell different stories.
const MOST_SKEW_MS: f64 = 500.0;

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let mut findings = lint(evidence);
    findings.extend(evidence.hosts.iter().filter_map(clock));
    findings.extend(evidence.hosts.iter().filter_map(unsent));
    mtu::merge(&mut findings, evidence, fabric)?;
    Ok(findings)
}

fn clock(host: &HostFacts) -> Option<Cause> {
    let skew_ms = host
        .clock_skew_ms
        .filter(|skew| skew.abs() > MOST_SKEW_MS)?;
    let said = format!("its clock is {skew_ms:.0} ms off");
    Some(Class::ClocksApart.cause(Subject::Host(host.host.clone()), 1.0, said))
}

/// Probes that its own kernel does not send say nothing of the fabric, so somebody has to hear of them.
fn unsent(host: &HostFacts) -> Option<Cause> {
    let evidence = UnsentFacts::told(&host.unsent);
    let subject = Subject::Host(host.host.clone());
    let finding = Class::UnsentProbes.cause(subject, 0.95, String::new());
    (!evidence.is_empty()).then_some(Cause {
        evidence,
        ..finding
    })
}

/// One host, or a few, set otherwise than most.
fn lint(evidence: &Evidence) -> Vec<Cause> {
    let mut values: BTreeMap<String, BTreeMap<String, BTreeSet<&str>>> = BTreeMap::new();
    let mut note = |setting: &str, value: String, host| {
        let of_setting = values.entry(setting.to_owned()).or_default();
        of_setting.entry(value).or_default().insert(host);
    };
    for host in &evidence.hosts {
        for (setting, value) in &host.settings {
            note(setting, value.clone(), host.host.as_str());
        }
    }
    let is_host = |port: &&PortFacts| evidence.hosts.iter().any(|host| host.host == port.node);
    for port in evidence.ports.iter().filter(is_host) {
        if let Some(gbps) = port.speed_gbps {
            note("NIC speed", rate(gbps).to_string(), &port.node);
        }
        if let Some(fec) = &port.fec {
            note("FEC", fec.clone(), &port.node);
        }
    }
    let settings = values.iter();
    settings
        .flat_map(|(setting, values)| odd_ones(setting, values))
        .collect()
}

fn odd_ones(setting: &str, values: &BTreeMap<String, BTreeSet<&str>>) -> Vec<Cause> {
    let all: usize = values.values().map(BTreeSet::len).sum();
    let usual = values.iter().max_by_key(|(_, hosts)| hosts.len());
    let Some((usual, most)) = usual.filter(|(_, most)| all >= FEWEST && 2 * most.len() > all)
    else {
        return Vec::new();
    };
    let odd = values.iter().filter(|(value, _)| *value != usual);
    let finding = |value: &str, host: &str| {
        let said = format!("{setting} is {value}, and {usual} on {} others", most.len());
        let confidence = 0.6 + 0.35 * most.len() as f64 / all as f64;
        let class = match setting {
            "MTU" => Class::MtuMismatch,
            _ => Class::ConfigurationMismatch,
        };
        class.cause(Subject::Host(host.to_owned()), confidence, said)
    };
    let findings =
        odd.flat_map(|(value, hosts)| hosts.iter().map(move |host| finding(value, host)));
    findings.collect()
}
