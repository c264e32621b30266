//! Since when a figure is another one: cumulative sums of what exceeds the usual.

use reweave_common::fabric::Fabric;

use super::evidence::{Evidence, EvidenceError, Series, node, subject_at, subject_of};
use super::hosts::median;
use super::passages::{passage, shared};
use super::{Cause, Class, Subject};

/// A change of the mean of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The place of the first value after it.
    pub at: usize,
    pub before: f64,
    pub after: f64,
}

/// In spreads of the series: what is still usual, and how much of more adds up to a change.
const SLACK: f64 = 1.0;
const ALARM: f64 = 10.0;
/// So many values first show what is usual.
pub(super) const LEARNING: usize = 16;
/// A change by less than this part is none anybody feels.
const LEAST: f64 = 0.2;

/// The first rise of a series that is no chance, if there is one.
pub fn changes(values: &[f64]) -> Option<Change> {
    let usual = values.get(..LEARNING)?;
    let before = median(&mut usual.to_vec());
    let mut off: Vec<_> = usual.iter().map(|value| (value - before).abs()).collect();
    // The median distance of a normal distribution is two thirds of its deviation.
    let spread = (1.5 * median(&mut off)).max(before.abs() * 0.02).max(1e-12);
    let (mut sum, mut since) = (0.0, LEARNING);
    for (place, value) in values.iter().enumerate().skip(LEARNING) {
        let more = (value - before) / spread - SLACK;
        if sum + more <= 0.0 {
            (sum, since) = (0.0, place + 1);
            continue;
        }
        sum += more.min(ALARM / 2.0);
        if sum > ALARM {
            let after = median(&mut values[since..].to_vec());
            // The sum began to rise some time before the change, if chance would have it so.
            let middle = (before + after) / 2.0;
            let later = values[since..].iter().position(|value| *value > middle);
            let felt = after > before * (1.0 + LEAST) + spread;
            if felt {
                let at = since + later.unwrap_or(0);
                return Some(Change { at, before, after });
            }
            // It went by: what comes later may stay.
            (sum, since) = (0.0, place + 1);
        }
    }
    None
}

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let mut findings = Vec::new();
    let mut slower = Vec::new();
    for series in &evidence.series {
        let class = match &series.of[..] {
            "latency_us" => Class::Latency,
            "loss" => Class::LossyLink,
            "errors" => Class::BadOptic,
            _ => continue,
        };
        let subject = subject(series, fabric)?;
        let Some(Change { at, before, after }) = changes(&series.values) else {
            continue;
        };
        let ago_s = (series.values.len() - at) as f64 * series.every_s;
        let of = &series.of;
        let said = format!("{of} went from {before:.3} to {after:.3} {ago_s:.0} s ago");
        let confidence = shared(0.8, &subject);
        let finding = class.cause(subject, confidence, said);
        match &finding.subject {
            Subject::Hop { .. } | Subject::Ambiguous(_) if class == Class::Latency => {
                note(&mut slower, ago_s, series.every_s, finding);
            }
            _ => findings.push(finding),
        }
    }
    findings.extend(slower.into_iter().map(|(_, finding)| finding));
    Ok(findings)
}

/// What became slower at the same time may be crossed by the same probes.
fn note(slower: &mut Vec<(f64, Cause)>, ago_s: f64, every_s: f64, finding: Cause) {
    let mut known = slower.iter_mut();
    let Some((_, known)) = known.find(|(at_s, _)| (at_s - ago_s).abs() <= every_s) else {
        return slower.push((ago_s, finding));
    };
    known.confidence /= 2.0;
    known.evidence.extend(finding.evidence);
    known.subject = Subject::either([known.subject.clone(), finding.subject]);
}

pub(super) fn subject(series: &Series, fabric: &Fabric) -> Result<Subject, EvidenceError> {
    match &series.at[..] {
        [place] => node(fabric, place).map(|_| subject_at(fabric, place)),
        [end, peer, ..] => {
            let passage = passage(fabric, [peer, end], series.link.as_deref())?;
            Ok(passage.subject(fabric, subject_of))
        }
        [] => Err(EvidenceError::NoSuchNode {
            name: String::new(),
        }),
    }
}
