//! What packets as large as the MTU do not get through. Hosts that are set otherwise than others, ports that
//! differ, and large probes that get lost may all tell of the same: then it is one finding.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;

use super::cables::whole;
use super::evidence::{Evidence, EvidenceError, PortFacts, link_of};
use super::localise::{self, Culprit};
use super::passages::shared;
use super::{Cause, Class, Subject};

/// Adds what ports and large probes say to what is said of hosts.
pub(super) fn merge(
    findings: &mut Vec<Cause>,
    evidence: &Evidence,
    fabric: &Fabric,
) -> Result<(), EvidenceError> {
    let by_ports = unequal(evidence, fabric)?;
    let by_probes = large_probes(evidence, fabric)?;
    for told in by_ports.into_iter().chain(by_probes) {
        let mut known = findings.iter_mut();
        let same = known.find(|it| it.class == told.class && it.subject.touches(&told.subject));
        match same {
            Some(known) => known.evidence.extend(told.evidence),
            None => findings.push(told),
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

/// Small probes pass and large ones do not: where, tell the ways of all large ones.
fn large_probes(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let found = localise::by_ways(evidence, fabric, |probed| {
        let small_pass = probed.sent > 0 && probed.lost * 10 <= probed.sent;
        small_pass.then_some([probed.large_sent, probed.large_lost])
    })?;
    let hardly_any_pass = |it: &&(Culprit, Vec<Subject>)| it.0.lost * 10 >= it.0.sent * 9;
    let found = found.iter().filter(hardly_any_pass);
    Ok(found
        .map(|(culprit, subjects)| finding(culprit, subjects, evidence, fabric))
        .collect())
}

fn finding(culprit: &Culprit, subjects: &[Subject], evidence: &Evidence, fabric: &Fabric) -> Cause {
    // An MTU is that of both directions.
    let mut links: Vec<_> = subjects.iter().map(|it| whole(it, fabric)).collect();
    links.dedup();
    if let Some(narrow) = narrow(&links, evidence, fabric) {
        links = vec![narrow];
    }
    let (lost, sent) = (culprit.lost, culprit.sent);
    let said = format!("small probes pass, {lost} of {sent} as large as the MTU do not");
    match links.len() {
        1 => Class::MtuMismatch.cause(links.remove(0), 0.9, said),
        _ => Class::MtuMismatch.cause(Subject::either(links), 0.7, said),
    }
}

/// The only one of these at an end of which less fits than elsewhere.
fn narrow(subjects: &[Subject], evidence: &Evidence, fabric: &Fabric) -> Option<Subject> {
    let widest = evidence
        .ports
        .iter()
        .filter_map(|port| port.mtu_bytes)
        .max();
    let at = |port: &PortFacts, subject: &Subject| match subject {
        Subject::Link { link, .. } => port.may_be_of(fabric, link),
        _ => false,
    };
    let is_narrow = |subject: &&Subject| {
        let mut ports = evidence.ports.iter().filter(|port| at(port, subject));
        ports.any(|port| port.mtu_bytes < widest && port.mtu_bytes.is_some())
    };
    let mut narrow = subjects.iter().filter(is_narrow);
    let only = narrow.next()?;
    narrow.next().is_none().then(|| only.clone())
}
