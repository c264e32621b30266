//! Forecasts: optics with growing error rates, and links that the start of a job will fill.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::snapshot::Hop;

use super::error::EvidenceError;
use super::evidence::{Evidence, JobFacts, hops, subject_of};
use super::passages::{comes_twice, passage, shared};
use super::routes::rate;
use super::{Cause, Class, Subject, cables, change, jobs};

/// Forward error correction fails at about this share of bits.
const FEC_FAILURE_SHARE: f64 = 1e-3;
/// Maximum time until a predicted failure that is reported.
const MAX_FORECAST_S: f64 = 7.0 * 86_400.0;
/// Least coefficient of determination (R²) of the exponential: of the straight line through the logarithms.
const MIN_EXPLAINED_SHARE: f64 = 0.8;
const MIN_VALUES: usize = 8;
/// A link is full from this share on.
const MIN_FULL_SHARE: f64 = 0.95;

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let mut findings = dying(evidence, fabric)?;
    findings.extend(saturating(evidence, fabric)?);
    Ok(findings)
}

/// Finds optics whose share of corrected bits grows exponentially, and extrapolates it to the share at which the correction
/// fails.
fn dying(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let mut findings = Vec::new();
    for series in evidence
        .series
        .iter()
        .filter(|it| it.of == "corrected_bit_share")
    {
        let known = series
            .values
            .iter()
            .enumerate()
            .filter(|(_, share)| **share > 0.0);
        let points = known.map(|(nth, share)| (nth as f64 * series.every_s, libm::log(*share)));
        let points: Vec<_> = points.collect();
        let Some(&(_, now)) = points.last().filter(|_| points.len() >= MIN_VALUES) else {
            continue;
        };
        let (slope, _, explained) = jobs::line(&points);
        let left_s = (libm::log(FEC_FAILURE_SHARE) - now) / slope;
        if slope > 0.0 && explained > MIN_EXPLAINED_SHARE && left_s < MAX_FORECAST_S {
            let hours = (left_s / 3600.0).max(0.0);
            let said = format!(
                "corrected bits climb; at this pace they cannot be corrected in {hours:.0} h"
            );
            let subject = change::subject(series, fabric)?;
            let confidence = shared(0.7 * explained, &subject);
            let finding = Class::DyingOptic.cause(subject, confidence, said);
            findings.push((finding, ()));
        }
    }
    Ok(cables::joined(findings, fabric, |(), ()| true))
}

/// Returns the hops parallel to a hop, because a path does not say which one is used.
fn abreast(fabric: &Fabric, hop: Hop) -> Vec<Hop> {
    let far = fabric.link(hop.link).far(hop.from).node;
    let links = fabric.links_between(hop.from, far);
    links.map(|link| Hop { link, ..hop }).collect()
}

fn either(fabric: &Fabric, hops: &[Hop]) -> Subject {
    let mut subjects: Vec<_> = hops.iter().map(|&hop| subject_of(fabric, hop)).collect();
    match subjects.len() {
        1 => subjects.remove(0),
        _ => Subject::either(subjects),
    }
}

/// Sums up the present load and that of jobs to be started, per hop; parallel links count as one.
fn saturating(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let counted = counted(evidence, fabric)?;
    let mut findings = Vec::new();
    for job in evidence.jobs.iter().filter(|it| !it.will_send.is_empty()) {
        let (own, others) = carried(evidence, fabric, &job.job)?;
        for (hop, more) in to_come(job, fabric)? {
            let abreast = abreast(fabric, hop);
            let rates = abreast.iter().map(|it| fabric.link(it.link).rate.gbps());
            let capacity: f64 = rates.sum();
            let of = |flows: &Loads| flows.get(&hop).copied().unwrap_or(0.0);
            let counted: f64 = abreast.iter().filter_map(|it| counted.get(it)).sum();
            // Flows that are listed are counted as well.
            let now = of(&others).max(counted - of(&own));
            // A small increase on a full link is not reported.
            let is_news =
                now < MIN_FULL_SHARE * capacity || more >= (1.0 - MIN_FULL_SHARE) * capacity;
            if is_news && now + more >= MIN_FULL_SHARE * capacity {
                let [now, capacity, more] = [now, capacity, more].map(rate);
                let said = format!(
                    "it carries {now} of {capacity}, and job {} will bring {more} more",
                    job.job
                );
                findings.push(Class::Saturation.cause(either(fabric, &abreast), 0.75, said));
            }
        }
    }
    Ok(findings)
}

/// Gb/s by hop, parallel links by the first.
type Loads = BTreeMap<Hop, f64>;

/// Returns the sending rates that ports report for each link; duplicates count once.
fn counted(evidence: &Evidence, fabric: &Fabric) -> Result<Loads, EvidenceError> {
    let mut counted = Loads::new();
    for port in &evidence.ports {
        let outgoing = passage(fabric, [&port.node, &port.peer], port.link.as_deref())?;
        let most = counted.entry(outgoing.hop).or_default();
        *most = port.sent_gbps.unwrap_or(0.0).max(*most);
    }
    Ok(counted)
}

/// Returns the loads of listed flows: of this job, and of all others.
fn carried(
    evidence: &Evidence,
    fabric: &Fabric,
    job: &str,
) -> Result<(Loads, Loads), EvidenceError> {
    let (mut own, mut others) = (Loads::new(), Loads::new());
    let arriving = evidence.flows.iter();
    for flow in arriving.filter(|it| comes_twice(&it.path).is_none()) {
        let loads = if flow.job.as_deref() == Some(job) {
            &mut own
        } else {
            &mut others
        };
        for hop in hops(fabric, &flow.path)? {
            *loads.entry(hop).or_default() += flow.gbps;
        }
    }
    Ok((own, others))
}

fn to_come(job: &JobFacts, fabric: &Fabric) -> Result<Loads, EvidenceError> {
    let mut more = Loads::new();
    for demand in &job.will_send {
        for hop in hops(fabric, &demand.path)? {
            *more.entry(hop).or_default() += demand.gbps;
        }
    }
    Ok(more)
}
