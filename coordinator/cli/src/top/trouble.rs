//! How much a link is in trouble: what is wrong with it comes before what it carries.

use std::cmp::Reverse;

use reweave_common::cause::Subject;
use reweave_common::operator::{Finding, Findings, Hop, LinkStatus};

use super::view::fullness;

/// From here on a link has no room left worth a word.
const FULL: f64 = 0.9;

/// Whoever has less stands higher.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Down,
    /// Something was found about it, and how sure that is, in thousandths.
    Found(Reverse<u64>, Reverse<u64>),
    /// How full it is, in thousandths.
    Carries(Reverse<u64>),
}

pub(super) fn rank(link: &LinkStatus, findings: &Findings) -> Rank {
    let load = Reverse(thousandths(fullness(link)));
    match sureness(link, findings) {
        _ if !link.up => Rank::Down,
        Some(sure) => Rank::Found(Reverse(thousandths(sure)), load),
        None => Rank::Carries(load),
    }
}

fn thousandths(share: f64) -> u64 {
    (share * 1e3) as u64
}

/// In a word or two; nothing where all is well.
pub(super) fn words(link: &LinkStatus, findings: &Findings) -> String {
    let found = about(link, findings).map(|(words, _)| words);
    let mut found: Vec<_> = found.collect();
    found.sort();
    found.dedup();
    match found.is_empty() {
        _ if !link.up => "down".to_owned(),
        false => found.join(", "),
        true if link.drained => "drained".to_owned(),
        true if fullness(link) >= FULL => "full".to_owned(),
        true => String::new(),
    }
}

fn sureness(link: &LinkStatus, findings: &Findings) -> Option<f64> {
    about(link, findings)
        .map(|(_, sure)| sure)
        .max_by(f64::total_cmp)
}

/// What was found that names this direction of the link, and how sure that is.
fn about(link: &LinkStatus, findings: &Findings) -> impl Iterator<Item = (String, f64)> {
    findings
        .findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::EcmpCollision(found) => {
                (found.hop == link.hop).then(|| ("collision".to_owned(), 1.0))
            }
            Finding::UselessPin(pin) => {
                (pin.hop == link.hop).then(|| ("useless pin".to_owned(), 0.0))
            }
            Finding::Cause(cause) => names(&cause.subject, &link.hop)
                .map(|alone| (cause.class.to_string(), cause.confidence * alone)),
        })
}

/// The share of a finding that is this direction's: one of several suspects has a part alone.
fn names(subject: &Subject, hop: &Hop) -> Option<f64> {
    let suspects = subject.each();
    let is_named = suspects.iter().any(|suspect| match suspect {
        Subject::Hop { from, to, link } => (from, to, link) == (&hop.from, &hop.to, &hop.link),
        Subject::Link { link, .. } => *link == hop.link,
        _ => false,
    });
    is_named.then(|| 1.0 / suspects.len() as f64)
}
