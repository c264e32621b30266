//! Problems in the order of their severity. A link in trouble ranks above a loaded link.

use std::cmp::Reverse;

use reweave_common::cause::{Class, Subject};
use reweave_common::operator::{Finding, Findings, Hop, LinkStatus};

use crate::names::Names;
use crate::show;
use crate::show::links::{MIN_FULL_LOAD, load};

/// Minimum confidence of a collision; the coordinator uses the same to notify a job.
pub(crate) const MIN_COLLISION_CONFIDENCE: f64 = 0.9;

/// Returns the number of findings and the worst of them in one line; nothing if there are none.
pub(crate) fn at_a_glance(findings: &Findings, names: &Names) -> Option<String> {
    let all = &findings.findings;
    let worst = show::in_a_sentence(by_badness(all).first()?, names);
    Some(match all.len() {
        1 => format!("1 finding: {worst}"),
        many => format!("{many} findings, the worst: {worst}"),
    })
}

/// Sorts findings by confidence, the surest first.
pub(crate) fn by_badness(findings: &[Finding]) -> Vec<&Finding> {
    let mut findings: Vec<_> = findings.iter().collect();
    findings.sort_by(|a, b| sure(b).total_cmp(&sure(a)));
    findings
}

/// Returns the confidence. A pin without a flow is harmless, so it ranks last.
fn sure(finding: &Finding) -> f64 {
    match finding {
        Finding::EcmpCollision(_) => MIN_COLLISION_CONFIDENCE,
        Finding::UselessPin(_) => 0.0,
        Finding::Cause(cause) => cause.confidence,
    }
}

/// Rank of a link; a smaller value is shown first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Down,
    /// A finding about the link: its confidence in thousandths, then the load.
    Found(Reverse<u64>, Reverse<u64>),
    /// Load in thousandths.
    Carries(Reverse<u64>),
}

pub(crate) fn rank(link: &LinkStatus, findings: &Findings) -> Rank {
    let load = Reverse(thousandths(load(link)));
    match sureness(link, findings) {
        _ if !link.up => Rank::Down,
        Some(sure) => Rank::Found(Reverse(thousandths(sure)), load),
        None => Rank::Carries(load),
    }
}

fn thousandths(share: f64) -> u64 {
    (share * 1e3) as u64
}

/// Describes the state of a link in a word or two; empty if all is well.
pub(crate) fn describe(link: &LinkStatus, findings: &Findings) -> String {
    let found = about(link, findings).map(|(words, _)| words);
    let mut found: Vec<_> = found.collect();
    found.sort();
    found.dedup();
    if !link.up {
        "down".to_owned()
    } else if !found.is_empty() {
        found.join(", ")
    } else if link.drained {
        "drained".to_owned()
    } else if load(link) >= MIN_FULL_LOAD {
        "full".to_owned()
    } else {
        String::new()
    }
}

fn sureness(link: &LinkStatus, findings: &Findings) -> Option<f64> {
    about(link, findings)
        .map(|(_, sure)| sure)
        .max_by(f64::total_cmp)
}

/// Returns the findings that name this direction of the link, with their confidence.
fn about(link: &LinkStatus, findings: &Findings) -> impl Iterator<Item = (String, f64)> {
    findings
        .findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::EcmpCollision(found) => {
                (found.hop == link.hop).then(|| (Class::EcmpCollision.to_string(), sure(finding)))
            }
            Finding::UselessPin(pin) => {
                (pin.hop == link.hop).then(|| ("useless pin".to_owned(), sure(finding)))
            }
            Finding::Cause(cause) => names(&cause.subject, &link.hop)
                .map(|alone| (cause.class.to_string(), cause.confidence * alone)),
        })
}

/// Returns the share of a finding that falls on this direction. Several suspects share it.
fn names(subject: &Subject, hop: &Hop) -> Option<f64> {
    let suspects = subject.each();
    let is_named = suspects.iter().any(|suspect| match suspect {
        Subject::Hop { from, to, link } => (from, to, link) == (&hop.from, &hop.to, &hop.link),
        Subject::Link { link, .. } => *link == hop.link,
        _ => false,
    });
    is_named.then(|| 1.0 / suspects.len() as f64)
}
