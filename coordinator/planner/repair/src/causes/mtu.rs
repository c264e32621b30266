//! Findings about packets of MTU size that are lost. A deviating host setting, differing ports and lost large probes
//! may have the same cause. Then they are one finding.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;

use super::cables::whole;
use super::configuration;
use super::error::EvidenceError;
use super::evidence::{Evidence, PortFacts, Probed, link_of};
use super::localise::{Culprit, is_dead};
use super::losses::by_ways;
use super::passages::shared;
use super::{Cause, Class, Subject};

/// Fewer large probes get lost on a clean network, too.
const MIN_LOST_LARGE_PROBES: u64 = 5;

/// Merges findings about ports and large probes into those about hosts.
pub(super) fn merge(
    findings: &mut Vec<Cause>,
    evidence: &Evidence,
    fabric: &Fabric,
) -> Result<(), EvidenceError> {
    let by_ports = unequal(evidence, fabric)?;
    let by_probes = large_probes(evidence, fabric)?;
    for report in by_ports.into_iter().chain(by_probes) {
        let mut known = findings.iter_mut();
        let same = known.find(|it| it.class == report.class && it.subject.touches(&report.subject));
        match same {
            Some(known) => known.evidence.extend(report.evidence),
            None => findings.push(report),
        }
    }
    Ok(())
}

/// Links whose ends differ, or say that something was too long.
fn unequal(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let mut by_link: BTreeMap<Subject, Vec<&PortFacts>> = BTreeMap::new();
    for port in &evidence.ports {
        let link = port.incoming(fabric)?.subject(fabric, link_of);
        by_link.entry(link).or_default().push(port);
    }
    let mut findings = Vec::new();
    for (link, ports) in by_link {
        let confidence = shared(0.95, &link);
        let finding = |said| Class::MtuMismatch.cause(link, confidence, said);
        findings.extend(said(&ports).map(finding));
    }
    Ok(findings)
}

fn said(ports: &[&PortFacts]) -> Option<String> {
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

/// Small probes pass and large ones do not. The paths of all large ones show where.
fn large_probes(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let found = by_ways(evidence, fabric, large_alone)?;
    let hardly_any_pass = |it: &&(Culprit, Vec<Subject>)| is_dead([it.0.sent, it.0.lost]);
    let found = found.iter().filter(hardly_any_pass);
    Ok(found
        .map(|(culprit, subjects)| finding(culprit, subjects, evidence, fabric))
        .collect())
}

/// Returns the numbers of sent and lost large probes, if small ones pass.
fn large_alone(probed: &Probed) -> Option<[u64; 2]> {
    let small_pass = probed.sent > 0 && probed.lost * 10 <= probed.sent;
    let are_any = probed.large_sent > 0;
    (small_pass && are_any).then_some([probed.large_sent, probed.large_lost])
}

/// The part that large lost probes do not explain.
pub(super) fn doubts(evidence: &Evidence, fabric: &Fabric) -> impl Iterator<Item = String> {
    [scattered(evidence, fabric), without_small(evidence)]
        .into_iter()
        .flatten()
}

/// Returns the total numbers of sent and lost probes; none if there are none.
fn summed(counts: impl Iterator<Item = [u64; 2]>) -> Option<[u64; 2]> {
    counts.reduce(|a, b| [a[0] + b[0], a[1] + b[1]])
}

/// Whether small ones pass is unknown.
fn without_small(evidence: &Evidence) -> Option<String> {
    let alone = evidence.probes.iter().filter(|it| it.sent == 0);
    let large = alone.map(|it| [it.large_sent, it.large_lost]);
    let [sent, lost] = summed(large)?;
    (lost >= MIN_LOST_LARGE_PROBES).then(|| {
        format!(
            "{lost} of {sent} probes as large as the MTU got lost where no small ones were sent: it may not be their size"
        )
    })
}

/// Returns the remark for flows that lose nearly all large probes without a known place of loss.
fn scattered(evidence: &Evidence, fabric: &Fabric) -> Option<String> {
    let large = evidence.probes.iter().filter_map(large_alone);
    let lost = large.filter(|it| it[1] >= MIN_LOST_LARGE_PROBES && is_dead(*it));
    let [sent, lost] = summed(lost)?;
    let mut findings = configuration::findings(evidence, fabric).ok()?.into_iter();
    let is_named = findings.any(|it| it.class == Class::MtuMismatch);
    (!is_named).then(|| {
        format!(
            "{lost} of {sent} probes as large as the MTU were lost at an unknown place, where \
             small ones pass"
        )
    })
}

fn finding(culprit: &Culprit, subjects: &[Subject], evidence: &Evidence, fabric: &Fabric) -> Cause {
    let own = |it: &&Subject| !culprit.may_be_host && is_of_host(it, subjects);
    let reports = subjects.iter().filter(|it| !own(it));
    // An MTU is that of both directions.
    let mut links: Vec<_> = reports.map(|it| whole(it, fabric)).collect();
    links.dedup();
    if let Some(narrow) = narrow(&links, evidence, fabric) {
        links = vec![narrow];
    }
    let (lost, sent) = (culprit.lost, culprit.sent);
    let by = direction(subjects);
    let said = format!("small probes pass{by}, {lost} of {sent} as large as the MTU do not");
    match links.len() {
        1 => Class::MtuMismatch.cause(links.remove(0), 0.9, said),
        _ => Class::MtuMismatch.cause(Subject::either(links), 0.7, said),
    }
}

/// The only one in which they get lost.
fn direction(subjects: &[Subject]) -> String {
    match subjects {
        [Subject::Hop { from, to, .. }] => format!(" from {from} to {to}"),
        _ => String::new(),
    }
}

/// The link of one of these hosts has the MTU that the host has set.
fn is_of_host(subject: &Subject, subjects: &[Subject]) -> bool {
    let mut hosts = subjects.iter().filter(|it| matches!(it, Subject::Host(_)));
    matches!(subject, Subject::Hop { .. }) && hosts.any(|host| host.touches(subject))
}

/// The only one of these at an end of which less fits than elsewhere.
fn narrow(subjects: &[Subject], evidence: &Evidence, fabric: &Fabric) -> Option<Subject> {
    let widest = evidence
        .ports
        .iter()
        .filter_map(|port| port.mtu_bytes)
        .max();
    let is_narrow = |subject: &&Subject| {
        let Subject::Link { link, .. } = subject else {
            return false;
        };
        let ports = evidence.ports.iter();
        let mut ports = ports.filter(|port| port.may_be_of(fabric, link));
        ports.any(|port| port.mtu_bytes < widest && port.mtu_bytes.is_some())
    };
    let mut narrow = subjects.iter().filter(is_narrow);
    let only = narrow.next()?;
    narrow.next().is_none().then(|| only.clone())
}
