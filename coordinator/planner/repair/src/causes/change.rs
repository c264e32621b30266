//! Change points of a series, by cumulative sums of deviations from the usual.

use reweave_common::fabric::Fabric;

use super::error::EvidenceError;
use super::evidence::{Evidence, Series, node, subject_at, subject_of};
use super::hosts::median;
use super::passages::{passage, shared};
use super::{Cause, Class, Subject, cables};

/// Cables within their specification break some frames, and fewer the less they carry.
const MIN_ERROR_SHARE: f64 = 1e-7;
/// A share of lost probes that no operator can be expected to live with.
pub(super) const MIN_LOSS_SHARE: f64 = 0.01;
/// Least ratio to the highest loss. The series of a lossy link has only probes that cross it. The series of other links on their
/// paths also have other probes, and so a lower loss.
const MIN_LOSS_RATIO: f64 = 0.75;
/// Number of values that represent the present.
const RECENT_VALUES: usize = 4;

/// A change of the mean of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first value after the change.
    pub at: usize,
    pub before: f64,
    pub after: f64,
}

/// Slack and threshold of the cumulative sum (CUSUM), in standard deviations of the baseline. The sum grows by the deviation of
/// each value less the slack, and never falls below zero. Above the threshold, the mean has risen.
const CUSUM_SLACK: f64 = 1.0;
const CUSUM_THRESHOLD: f64 = 10.0;
/// Number of first values that define the baseline.
pub(super) const BASELINE_VALUES: usize = 16;
/// A smaller relative rise is ignored.
const MIN_RELATIVE_CHANGE: f64 = 0.2;

/// Returns the first lasting rise of the mean of a series, if there is one. One value adds at most half of the threshold, so a
/// single outlier is no rise.
pub fn changes(values: &[f64]) -> Option<Change> {
    let usual = values.get(..BASELINE_VALUES)?;
    let before = median(&mut usual.to_vec());
    let mut off: Vec<_> = usual.iter().map(|value| (value - before).abs()).collect();
    // The median absolute deviation of a normal distribution is two thirds of its standard deviation.
    let spread = (1.5 * median(&mut off)).max(before.abs() * 0.02).max(1e-12);
    let (mut sum, mut since) = (0.0, BASELINE_VALUES);
    for (place, value) in values.iter().enumerate().skip(BASELINE_VALUES) {
        let more = (value - before) / spread - CUSUM_SLACK;
        if sum + more <= 0.0 {
            (sum, since) = (0.0, place + 1);
            continue;
        }
        sum += more.min(CUSUM_THRESHOLD / 2.0);
        if sum > CUSUM_THRESHOLD {
            let after = median(&mut values[since..].to_vec());
            // The sum began to rise some time before the change, if chance would have it so.
            let middle = (before + after) / 2.0;
            let later = values[since..].iter().position(|value| *value > middle);
            let felt = after > before * (1.0 + MIN_RELATIVE_CHANGE) + spread;
            if felt {
                let at = since + later.unwrap_or(0);
                return Some(Change { at, before, after });
            }
            // The deviation was temporary: a later one may persist.
            (sum, since) = (0.0, place + 1);
        }
    }
    None
}

/// A value that became worse.
#[derive(Default)]
pub(super) struct Worse {
    pub(super) slower: Vec<Cause>,
    pub(super) broken: Vec<Cause>,
    pub(super) lossier: Vec<Lossier>,
}

/// One direction of a link whose probes get lost more often than before. Other links that the same probes cross seem to lose
/// some as well.
pub(super) struct Lossier {
    pub(super) cause: Cause,
    after: f64,
}

pub(super) fn worse(evidence: &Evidence, fabric: &Fabric) -> Result<Worse, EvidenceError> {
    let (mut worse, mut slower) = (Worse::default(), Vec::new());
    for series in &evidence.series {
        let (class, least) = match &series.of[..] {
            "latency_us" => (Class::Latency, 0.0),
            "loss" => (Class::LossyLink, 0.0),
            "errors" => (Class::BadOptic, MIN_ERROR_SHARE),
            _ => continue,
        };
        let subject = subject(series, fabric)?;
        let Some(change) = changes(&series.values).filter(|it| it.after >= least) else {
            continue;
        };
        let ago_s = (series.values.len() - change.at) as f64 * series.every_s;
        let confidence = shared(0.8, &subject);
        let cause = class.cause(subject, confidence, change.said_of(&series.of, ago_s));
        let after = change.after;
        match (class, &cause.subject) {
            (Class::Latency, Subject::Hop { .. } | Subject::Ambiguous(_)) => {
                note(&mut slower, ago_s, series.every_s, cause);
            }
            (Class::Latency, _) => worse.slower.push(cause),
            _ if !change.lasts(&series.values) => {}
            (Class::BadOptic, _) => worse.broken.push(cause),
            _ => worse.lossier.push(Lossier { cause, after }),
        }
    }
    let slower = slower.into_iter().map(|(_, finding)| finding);
    worse.slower.extend(slower);
    worse.lossier.sort_by(|a, b| b.after.total_cmp(&a.after));
    Ok(worse)
}

impl Change {
    fn said_of(&self, of: &str, ago_s: f64) -> String {
        let [before, after] = [self.before, self.after].map(|value| {
            if value == 0.0 || value >= 0.001 {
                format!("{value:.3}")
            } else {
                format!("{value:.1e}")
            }
        });
        format!("{of} went from {before} to {after} {ago_s:.0} s ago")
    }

    /// Whether the change still lasts: a repaired link loses nothing more.
    fn lasts(&self, values: &[f64]) -> bool {
        let lately = &values[values.len().saturating_sub(RECENT_VALUES)..];
        median(&mut lately.to_vec()) > (self.before + self.after) / 2.0
    }
}

/// If no link is known to lose probes now, returns those whose loss increased the most.
pub(super) fn lossiest(lossier: Vec<Lossier>, fabric: &Fabric) -> Option<Cause> {
    let most = lossier.first()?.after;
    let is_it = |it: &Lossier| it.after >= MIN_LOSS_SHARE && it.after > MIN_LOSS_RATIO * most;
    let all = lossier.into_iter().filter(is_it).map(|it| (it.cause, ()));
    let all = cables::joined(all.collect(), fabric, |(), ()| true);
    all.into_iter().reduce(|one, other| {
        let subject = Subject::either([one.subject, other.subject]);
        Cause {
            confidence: shared(0.8, &subject),
            subject,
            evidence: [one.evidence, other.evidence].concat(),
            ..one
        }
    })
}

/// Adds a series that became slower. Series that changed at the same time may share a link.
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
