//! The share of a time span that the history covers.

use std::time::Duration;

use reweave_common::moment::Moment;

use super::{Past, PastError};
use crate::kind::Kind;
use crate::resolution::Resolution;

/// The kinds that show coverage: agents report links as long as they run, and flows whenever there are any.
const COVERAGE_KINDS: [Kind; 2] = [Kind::Flows, Kind::Links];

/// The parts of a time span for which there are rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Covered {
    pub parts: Vec<[Moment; 2]>,
    span: Duration,
}

impl Covered {
    /// Returns the covered share, from 0 to 1.
    pub fn share(&self) -> f64 {
        let parts = self.parts.iter().map(|[from, to]| to.since(*from));
        parts.sum::<Duration>().as_secs_f64() / self.span.as_secs_f64()
    }
}

impl Past {
    /// Returns the coverage by flows and links in this resolution.
    pub fn covered(
        &self,
        [from, to]: [Moment; 2],
        resolution: Resolution,
    ) -> Result<Covered, PastError> {
        let mut kept = Vec::new();
        for kind in COVERAGE_KINDS {
            let all = self.kept(kind)?.into_iter();
            kept.extend(all.filter(|it| it.resolution == resolution));
        }
        let inside = kept.iter().map(|it| [it.from.max(from), it.to.min(to)]);
        let mut inside: Vec<_> = inside.filter(|[from, to]| from < to).collect();
        inside.sort_unstable();
        Ok(Covered {
            parts: joined(&inside),
            span: to.since(from),
        })
    }
}

/// Merges adjacent spans.
fn joined(sorted: &[[Moment; 2]]) -> Vec<[Moment; 2]> {
    let mut parts: Vec<[Moment; 2]> = Vec::new();
    for &[from, to] in sorted {
        match parts.last_mut() {
            Some(last) if from <= last[1] => last[1] = last[1].max(to),
            _ => parts.push([from, to]),
        }
    }
    parts
}
