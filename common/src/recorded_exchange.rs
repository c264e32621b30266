//! The network activity of a job's ranks, from a recorder.

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
    /// Time of the rank's request, on its own clock.
    pub asked_ns: Option<u64>,
    /// Duration, if it was recorded.
    pub took: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeKind {
    Collective {
        operation: Operation,
        /// All members, including this rank.
        group: Vec<Rank>,
        /// Name of the group in the recording.
        name: String,
    },
    Sent {
        to: Rank,
    },
    Received {
        from: Rank,
    },
}
