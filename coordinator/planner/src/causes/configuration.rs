//! Settings that differ where they should not.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;

use super::evidence::{Evidence, EvidenceError, HostFacts, PortFacts, link_of};
use super::{Cause, Class, Subject};

/// Fewer hosts than these have no majority to differ from.
const FEWEST: usize = 3;
/// Clocks further apart than this tell different stories.
const MOST_SKEW_MS: f64 = 500.0;

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let mut findings = lint(evidence);
    findings.extend(evidence.hosts.iter().filter_map(clock));
    let mut by_link: BTreeMap<String, Vec<&PortFacts>> = BTreeMap::new();
    for port in &evidence.ports {
        let link = fabric.link_name(port.incoming(fabric)?.link);
        by_link.entry(link).or_default().push(port);
    }
    for ports in by_link.values() {
        let link = link_of(fabric, ports[0].incoming(fabric)?);
        let said = mtus(ports);
        findings.extend(said.map(|said| Class::MtuMismatch.cause(link, 0.95, said)));
    }
    findings.extend(large_probes(evidence));
    Ok(findings)
}

fn mtus(ports: &[&PortFacts]) -> Option<String> {
    let known = ports
        .iter()
        .filter_map(|port| Some((&port.node, port.mtu_bytes?)));
    let known: Vec<_> = known.collect();
    if let [(a, of_a), (b, of_b)] = known[..]
        && of_a != of_b
    {
        return Some(format!("{a} takes {of_a} bytes, {b} {of_b}"));
    }
    let port = ports.iter().find(|port| port.oversized > 0)?;
    Some(format!(
        "{} dropped {} packets longer than its MTU",
        port.node, port.oversized
    ))
}

/// Small ones pass and large ones do not: of a host when all of its large ones fail.
fn large_probes(evidence: &Evidence) -> Vec<Cause> {
    let mut of_host: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for probed in &evidence.probes {
        let small_pass = probed.sent > 0 && probed.lost * 10 <= probed.sent;
        let ends = [probed.path.first(), probed.path.last()]
            .into_iter()
            .flatten();
        for host in ends.filter(|_| small_pass && probed.large_sent > 0) {
            let counts = of_host.entry(host).or_default();
            counts.0 += probed.large_sent;
            counts.1 += probed.large_lost;
        }
    }
    let all_fail = |&(_, &(sent, lost)): &(&&str, &(u64, u64))| lost * 10 >= sent * 9;
    let failing: Vec<_> = of_host.iter().filter(all_fail).collect();
    let subjects: Vec<_> = failing
        .iter()
        .map(|(host, _)| Subject::Host(host.to_string()))
        .collect();
    let said = "small probes pass, large ones do not".to_owned();
    match subjects.len() {
        0 => Vec::new(),
        1 => vec![Class::MtuMismatch.cause(subjects[0].clone(), 0.9, said)],
        _ => vec![Class::MtuMismatch.cause(Subject::Ambiguous(subjects), 0.7, said)],
    }
}

fn clock(host: &HostFacts) -> Option<Cause> {
    let skew_ms = host
        .clock_skew_ms
        .filter(|skew| skew.abs() > MOST_SKEW_MS)?;
    let said = format!("its clock is {skew_ms:.0} ms off");
    Some(Class::ClocksApart.cause(Subject::Host(host.host.clone()), 1.0, said))
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
            note("NIC speed", format!("{gbps} Gb/s"), &port.node);
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
        Class::ConfigurationMismatch.cause(Subject::Host(host.to_owned()), confidence, said)
    };
    let findings =
        odd.flat_map(|(value, hosts)| hosts.iter().map(move |host| finding(value, host)));
    findings.collect()
}
