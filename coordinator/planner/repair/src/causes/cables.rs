//! The two directions of one cable: what makes both bad is one trouble.

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;

use super::{Cause, Subject};

/// Joins two findings of a class about the two directions of one link, if their measurements are alike.
pub(super) fn joined<T>(
    found: Vec<(Cause, T)>,
    fabric: &Fabric,
    are_alike: impl Fn(&T, &T) -> bool,
) -> Vec<Cause> {
    let mut joined: Vec<(Cause, T)> = Vec::new();
    for (cause, measured) in found {
        let is_other_way = |(known, other): &&mut (Cause, T)| {
            known.class == cause.class
                && are_opposite(&known.subject, &cause.subject)
                && are_alike(other, &measured)
        };
        match joined.iter_mut().find(is_other_way) {
            Some((known, _)) => join(known, &cause, fabric),
            None => joined.push((cause, measured)),
        }
    }
    joined.into_iter().map(|(cause, _)| cause).collect()
}

fn join(known: &mut Cause, other: &Cause, fabric: &Fabric) {
    let values = [&*known, other].map(with_direction);
    known.evidence = values.concat();
    known.confidence = known.confidence.max(other.confidence);
    known.subject = whole(&known.subject, fabric);
}

/// Returns the evidence, with the direction of each piece.
fn with_direction(cause: &Cause) -> Vec<String> {
    let ways = ways(&cause.subject);
    let evidence = cause.evidence.iter();
    evidence.map(|said| format!("{ways}: {said}")).collect()
}

fn ways(subject: &Subject) -> String {
    match subject {
        Subject::Hop { from, to, .. } => format!("{from} to {to}"),
        Subject::Ambiguous(_) => {
            let all: Vec<_> = subject.each().iter().map(ways).collect();
            all.join(" or ")
        }
        other => other.to_string(),
    }
}

/// Whether the one is the other with all directions turned.
fn are_opposite(one: &Subject, other: &Subject) -> bool {
    match (one, other) {
        (Subject::Ambiguous(_), Subject::Ambiguous(_)) => {
            let (ones, others) = (one.each(), other.each());
            let has_opposite = |it: &Subject| others.iter().any(|other| are_opposite(it, other));
            ones.len() == others.len() && ones.iter().all(has_opposite)
        }
        (
            Subject::Hop { from, to, link },
            Subject::Hop {
                from: back_from,
                to: back_to,
                link: back,
            },
        ) => [from, to, link] == [back_to, back_from, back],
        _ => false,
    }
}

/// Links for directions of them.
pub(super) fn whole(subject: &Subject, fabric: &Fabric) -> Subject {
    match subject {
        Subject::Hop { from, to, link } => {
            let mut ends = [from.clone(), to.clone()];
            let index = |name: &String| fabric.find(name).map(NodeId::index);
            ends.sort_by_key(index);
            Subject::Link {
                ends,
                link: link.clone(),
            }
        }
        Subject::Ambiguous(_) => Subject::either(subject.each().iter().map(|it| whole(it, fabric))),
        other => other.clone(),
    }
}
