//! Reasons why evidence is refused.

use reweave_common::units::Rate;
use thiserror::Error;

use super::evidence::KNOWN_SERIES;

/// Evidence that does not fit the fabric.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum EvidenceError {
    #[error("{list}[{entry}]: {error}")]
    At {
        list: &'static str,
        entry: usize,
        error: Box<EvidenceError>,
    },
    #[error("the fabric has no node named {name:?}")]
    NoSuchNode { name: String },
    #[error("{a} and {b} are not linked in the fabric")]
    NotLinked { a: String, b: String },
    /// A link of that name joins other nodes, or does not exist.
    #[error("no link {link} joins {a} and {b}")]
    NoSuchLink { link: String, a: String, b: String },
    /// A link is named for other hops than there are.
    #[error("{path} has {hops} hops, and {links} links are named")]
    OtherHops {
        path: String,
        hops: usize,
        links: usize,
    },
    #[error("{name} is a switch, and no host")]
    NoHost { name: String },
    #[error("job {job} has no rank {rank}")]
    NoSuchRank { job: String, rank: usize },
    /// A figure is given of other ranks than the job has.
    #[error("job {job} has {ranks} ranks, and {list} {values} values")]
    OtherRanks {
        job: String,
        ranks: usize,
        list: &'static str,
        values: usize,
    },
    #[error("more probes were lost than sent over {path}")]
    MoreLostThanSent { path: String },
    #[error("{path} does not lead from {} to {}", hosts[0], hosts[1])]
    OtherEnds { path: String, hosts: [String; 2] },
    /// A figure that nothing can have.
    #[error("{what} of {of} cannot be {}", figure(*value))]
    NotPossible {
        what: &'static str,
        of: String,
        value: f64,
    },
    /// More than fits on the link.
    #[error("{of} cannot be {claimed}: {link} carries {most}")]
    BeyondLink {
        of: String,
        claimed: Rate,
        link: String,
        most: Rate,
    },
    /// More than all links of one of them carry.
    #[error(
        "the bandwidth of {} to {} cannot be {claimed}: all links of one of them carry {most}",
        hosts[0],
        hosts[1]
    )]
    BeyondHosts {
        hosts: [String; 2],
        claimed: Rate,
        most: Rate,
    },
    /// The kind of the series is unknown.
    #[error("{of:?} is nothing that a series is of: there are {}", KNOWN_SERIES.join(", "))]
    NoSuchSeries { of: String },
    /// Two that speak of the same, and say other things.
    #[error("{of} is given twice, and not the same")]
    Contradiction { of: String },
}

impl EvidenceError {
    /// Adds the list and the index of the entry.
    pub(super) fn at(self, list: &'static str, entry: usize) -> Self {
        let error = Box::new(self);
        Self::At { list, entry, error }
    }
}

/// Larger figures are printed by their powers of ten.
const MIN_SCIENTIFIC_NUMBER: f64 = 1e16;

fn figure(value: f64) -> String {
    if value.abs() < MIN_SCIENTIFIC_NUMBER {
        value.to_string()
    } else {
        format!("{value:e}")
    }
}
