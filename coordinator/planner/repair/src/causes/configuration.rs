//! Settings that differ where they should not.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;

use super::error::EvidenceError;
use super::evidence::{Evidence, HostFacts, PortFacts, UnsentFacts};
use super::routes::rate;
use super::{Cause, Class, Subject, mtu};

/// Fewer hosts than these have no majority to differ from.
const MIN_HOSTS: usize = 3;
/// From this number of hosts on, a quarter of them that differ are taken for a deliberate group.
const MIN_HOSTS_OF_GROUPS: usize = 8;
const MIN_GROUP_SHARE: f64 = 0.25;
/// Maximum number of named hosts of a group.
const MAX_NAMED_HOSTS: usize = 4;
/// Clocks further apart than this cannot be compared.
const MAX_SKEW_MS: f64 = 500.0;

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let mut findings = lint(evidence, fabric);
    findings.extend(evidence.hosts.iter().filter_map(clock));
    findings.extend(evidence.hosts.iter().filter_map(unsent));
    mtu::merge(&mut findings, evidence, fabric)?;
    Ok(findings)
}

fn clock(host: &HostFacts) -> Option<Cause> {
    let skew_ms = host.clock_skew_ms.filter(|skew| skew.abs() > MAX_SKEW_MS)?;
    let said = format!("its clock is {skew_ms:.0} ms off");
    Some(Class::ClocksApart.cause(Subject::Host(host.host.clone()), 1.0, said))
}

/// Probes that its own kernel does not send say nothing of the fabric, so the operator has to hear of them.
fn unsent(host: &HostFacts) -> Option<Cause> {
    let evidence = UnsentFacts::texts(&host.unsent);
    let subject = Subject::Host(host.host.clone());
    let finding = Class::UnsentProbes.cause(subject, 0.95, String::new());
    (!evidence.is_empty()).then_some(Cause {
        evidence,
        ..finding
    })
}

/// One host, or a few, set otherwise than most.
fn lint(evidence: &Evidence, fabric: &Fabric) -> Vec<Cause> {
    let settings = settings(evidence, fabric);
    let odd = settings.iter();
    odd.flat_map(|(setting, values)| odd_ones(setting, values))
        .collect()
}

/// Hosts with each value of each setting.
type Values<'e> = BTreeMap<String, BTreeSet<&'e str>>;

/// Settings of which there are several values, and none that most hosts have: then it is unknown which are set wrongly,
/// if any.
pub(super) fn split(evidence: &Evidence, fabric: &Fabric) -> Vec<String> {
    let settings = settings(evidence, fabric);
    let split = settings.iter().filter(|(_, values)| is_split(values));
    let reports = split.map(|(setting, values)| {
        let of = |(value, hosts): (&String, &BTreeSet<&str>)| match hosts.first() {
            Some(only) if hosts.len() == 1 => format!("{value} on {only}"),
            _ => format!("{value} on {} hosts", hosts.len()),
        };
        let values: Vec<_> = values.iter().map(of).collect();
        format!(
            "{setting} is {}: which of them is wrong is unknown",
            values.join(", ")
        )
    });
    reports.collect()
}

/// Not where each of many has a value of its own, as of names, or a host has several, as of several ports.
fn is_split(values: &Values<'_>) -> bool {
    let all: usize = values.values().map(BTreeSet::len).sum();
    let hosts: BTreeSet<_> = values.values().flatten().collect();
    let is_own = values.len() == all && all >= MIN_HOSTS;
    values.len() > 1 && hosts.len() == all && !is_own && usual(values).is_none()
}

/// Returns the settings of hosts and of their ports.
fn settings<'e>(evidence: &'e Evidence, fabric: &Fabric) -> BTreeMap<String, Values<'e>> {
    let mut values: BTreeMap<String, Values<'e>> = BTreeMap::new();
    let mut note = |setting: &str, value: String, host| {
        let of_setting = values.entry(setting.to_owned()).or_default();
        of_setting.entry(value).or_default().insert(host);
    };
    for host in &evidence.hosts {
        for (setting, value) in &host.settings {
            note(setting, value.clone(), host.host.as_str());
        }
    }
    let reports = evidence.hosts.iter();
    let with_mtu = reports.filter(|host| host.settings.contains_key("MTU"));
    let with_mtu: BTreeSet<_> = with_mtu.map(|host| &host.host).collect();
    let is_host = |port: &&PortFacts| {
        let node = fabric.find(&port.node);
        node.is_some_and(|node| fabric.node(node).role.is_endpoint())
    };
    for port in evidence.ports.iter().filter(is_host) {
        if let Some(bytes) = port.mtu_bytes.filter(|_| !with_mtu.contains(&port.node)) {
            note("MTU", bytes.to_string(), &port.node);
        }
        if let Some(gbps) = port.speed_gbps {
            note("NIC speed", rate(gbps).to_string(), &port.node);
        }
        if let Some(fec) = &port.fec {
            note("FEC", fec.clone(), &port.node);
        }
    }
    values
}

/// Returns the most common value, with its hosts.
fn usual<'v, 'e>(values: &'v Values<'e>) -> Option<(&'v String, &'v BTreeSet<&'e str>)> {
    let all: usize = values.values().map(BTreeSet::len).sum();
    let usual = values.iter().max_by_key(|(_, hosts)| hosts.len());
    usual.filter(|(_, most)| all >= MIN_HOSTS && 2 * most.len() > all)
}

fn odd_ones(setting: &str, values: &Values<'_>) -> Vec<Cause> {
    let Some((usual, most)) = usual(values) else {
        return Vec::new();
    };
    let all: usize = values.values().map(BTreeSet::len).sum();
    let odd = values.iter().filter(|(value, _)| *value != usual);
    let finding = |hosts: &[&str], said: String| {
        let confidence = 0.6 + 0.35 * most.len() as f64 / all as f64;
        let class = match setting {
            "MTU" => Class::MtuMismatch,
            _ => Class::ConfigurationMismatch,
        };
        let hosts = hosts.iter().map(|host| Subject::Host((*host).to_owned()));
        let mut hosts: Vec<_> = hosts.collect();
        let subject = match hosts.len() {
            1 => hosts.remove(0),
            _ => Subject::all(hosts),
        };
        class.cause(subject, confidence, said)
    };
    let mut findings = Vec::new();
    for (value, hosts) in odd {
        let hosts: Vec<_> = hosts.iter().copied().collect();
        let others = format!("and {usual} on {} others", most.len());
        if all >= MIN_HOSTS_OF_GROUPS && hosts.len() as f64 >= MIN_GROUP_SHARE * all as f64 {
            let said = format!("{setting} is {value} on {}, {others}", group(&hosts));
            findings.push(finding(&hosts, said));
        } else {
            let said = format!("{setting} is {value}, {others}");
            findings.extend(hosts.iter().map(|host| finding(&[*host], said.clone())));
        }
    }
    findings
}

fn group(hosts: &[&str]) -> String {
    let named = hosts[..hosts.len().min(MAX_NAMED_HOSTS)].join(", ");
    let more = hosts.len().saturating_sub(MAX_NAMED_HOSTS);
    let more = (more > 0).then(|| format!(" and {more} more"));
    format!(
        "{} hosts ({named}{})",
        hosts.len(),
        more.unwrap_or_default()
    )
}
