//! Findings from counters of ports alone.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;

use super::error::EvidenceError;
use super::evidence::{Evidence, PortFacts, link_of, subject_at, subject_of};
use super::passages::shared;
use super::{Cause, Class, Subject, cables};

/// A cable within its specification mangles far fewer frames.
const MAX_FRAME_ERROR_SHARE: f64 = 1e-6;
/// Forward error correction still copes with this many bits, but not with much more.
const MAX_CORRECTED_BIT_SHARE: f64 = 1e-5;
/// A port that is made to pause for longer than this part of the time has a receiver behind it that
/// does not keep up.
const MAX_PAUSED_SHARE: f64 = 0.1;
/// Least share of paused time of a deadlock, in which nothing is sent.
const MIN_DEADLOCK_PAUSED_SHARE: f64 = 0.95;
const MAX_DEADLOCK_GBPS: f64 = 1e-3;

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let (mut optics, mut findings) = (Vec::new(), Vec::new());
    for port in &evidence.ports {
        optics.extend(bad_optic(port, fabric)?.map(|finding| (finding, ())));
        findings.extend(flap(port, fabric)?);
    }
    findings.extend(cables::joined(optics, fabric, |(), ()| true));
    let loop_of = deadlock(evidence, fabric);
    match &loop_of {
        Some(finding) => findings.push(finding.clone()),
        None => findings.extend(storms(evidence, fabric)),
    }
    Ok(findings)
}

fn bad_optic(port: &PortFacts, fabric: &Fabric) -> Result<Option<Cause>, EvidenceError> {
    let figures = [
        (
            "frames with errors",
            port.frame_error_share,
            MAX_FRAME_ERROR_SHARE,
        ),
        (
            "bits corrected",
            port.corrected_bit_share,
            MAX_CORRECTED_BIT_SHARE,
        ),
    ];
    let over = figures.into_iter().filter_map(|(what, share, most)| {
        let share = share.filter(|&share| share > most)?;
        Some(format!("{} counts {share:.1e} of its {what}", port.node))
    });
    let over: Vec<_> = over.collect();
    if over.is_empty() {
        return Ok(None);
    }
    let subject = port.incoming(fabric)?.subject(fabric, subject_of);
    let confidence = shared(0.9, &subject);
    let mut finding = Class::BadOptic.cause(subject, confidence, String::new());
    finding.evidence = over;
    Ok(Some(finding))
}

fn flap(port: &PortFacts, fabric: &Fabric) -> Result<Option<Cause>, EvidenceError> {
    let link = port.incoming(fabric)?.subject(fabric, link_of);
    let confidence = shared(0.9, &link);
    let times = port.link_downs;
    let said = format!("{} lost the link {times} times", port.node);
    Ok((times > 0).then(|| Class::NicFlap.cause(link, confidence, said)))
}

/// A port that pauses its peer because it is paused itself only passes on a pause from elsewhere.
fn storms(evidence: &Evidence, fabric: &Fabric) -> Vec<Cause> {
    let storms = evidence.ports.iter();
    let storms: Vec<_> = storms.filter_map(|port| storm(port, fabric)).collect();
    let is_paused = |storm: &Cause| {
        let mut paused = evidence.ports.iter().filter(|port| paused(port).is_some());
        paused.any(|port| storm.subject == subject_at(fabric, &port.node))
    };
    let first: Vec<_> = storms.iter().filter(|it| !is_paused(it)).cloned().collect();
    if first.is_empty() { storms } else { first }
}

fn paused(port: &PortFacts) -> Option<f64> {
    port.paused_share.filter(|&share| share > MAX_PAUSED_SHARE)
}

/// Returns the cause of a pause storm: the port that pauses its peer, by its own or the peer's counter.
fn storm(port: &PortFacts, fabric: &Fabric) -> Option<Cause> {
    let (culprit, said) = match (port.pause_storms, paused(port)) {
        (0, None) => return None,
        (0, Some(share)) => {
            let percent = 100.0 * share;
            let said = format!(
                "{} made {} pause {percent:.0} % of the time",
                port.peer, port.node
            );
            (&port.peer, said)
        }
        (times, _) => {
            let said = format!(
                "{} paused its peer for suspiciously long {times} times",
                port.node
            );
            (&port.node, said)
        }
    };
    Some(Class::PfcStorm.cause(subject_at(fabric, culprit), 0.85, said))
}

/// A circle of ports each of which stands still because the next one makes it.
fn deadlock(evidence: &Evidence, fabric: &Fabric) -> Option<Cause> {
    let still = evidence.ports.iter().filter(|port| {
        let paused = port
            .paused_share
            .is_some_and(|share| share >= MIN_DEADLOCK_PAUSED_SHARE);
        paused && port.sent_gbps.is_some_and(|gbps| gbps <= MAX_DEADLOCK_GBPS)
    });
    let mut waits_for: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for port in still {
        waits_for.entry(&port.node).or_default().push(&port.peer);
    }
    let circle = waits_for
        .keys()
        .find_map(|&start| circle(&waits_for, start))?;
    let said = format!(
        "{} wait for each other in a circle and send nothing",
        circle.join(", ")
    );
    let members = circle.iter().map(|node| subject_at(fabric, node));
    let subject = Subject::all(members);
    Some(Class::PfcDeadlock.cause(subject, 0.95, said))
}

fn circle<'e>(waits_for: &BTreeMap<&'e str, Vec<&'e str>>, start: &'e str) -> Option<Vec<&'e str>> {
    let mut ways = vec![vec![start]];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(way) = ways.pop() {
        for &next in waits_for.get(way[way.len() - 1]).into_iter().flatten() {
            // Two that wait for each other over one cable are no circle of the fabric.
            if next == start && way.len() > 2 {
                return Some(way);
            }
            if next != start && seen.insert(next) {
                ways.push([&way[..], &[next]].concat());
            }
        }
    }
    None
}
