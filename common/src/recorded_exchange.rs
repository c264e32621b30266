//! The network activity of a job's ranks, as a recorder wrote it.

use std::time::Duration;

use crate::ids::Rank;
use crate::iteration::Operation;
use crate::units::Bytes;

/// One collective or message, as one rank saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedExchange {
    pub rank: Rank,
    pub what: ExchangeKind,
    pub bytes: Bytes,
    /// When the rank asked for it, on its own clock.
    pub asked_ns: Option<u64>,
    /// How long it took, if that was recorded.
    pub took: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeKind {
    Collective {
        operation: Operation,
        /// All members, this rank among them.
        group: Vec<Rank>,
        /// What the recorder calls the group.
        name: String,
    },
    Sent {
        to: Rank,
    },
    Received {
        from: Rank,
    },
}
