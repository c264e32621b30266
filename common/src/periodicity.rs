//! The iteration period of a training job, from its traffic on one host.

use serde::{Deserialize, Serialize};

use crate::moment::Moment;
use crate::time_span::TimeSpan;
use crate::units::{Bytes, Percent};

/// Whether a host's traffic is periodic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Periodicity {
    /// Too few samples to decide.
    Unknown {
        watched: TimeSpan,
    },
    /// There is no traffic, or it is not periodic.
    None {
        watched: TimeSpan,
    },
    Found(IterationPeriod),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationPeriod {
    /// Time from the start of an iteration's traffic to the start of the next.
    pub period: TimeSpan,
    /// Longest continuous part of it without traffic: the host computes.
    pub gap: TimeSpan,
    pub sent: Bytes,
    pub received: Bytes,
    pub shape: Option<ExchangePattern>,
    /// Similarity of the iterations.
    pub confidence_percent: Percent,
    /// Number of iterations that were used.
    pub iterations: u32,
    /// Start of this period, as far as it was seen.
    pub since: Moment,
    /// Start of the next part without traffic, by the clock of the host.
    pub next_gap: Moment,
}

impl IterationPeriod {
    /// Returns the bytes in both directions.
    pub fn exchanged(&self) -> u64 {
        self.sent.count().saturating_add(self.received.count())
    }
}

/// Maximum relative difference of equal periods.
const MAX_PERIOD_DIFFERENCE: f64 = 0.05;

/// Whether the two periods are equal.
pub fn is_same_period(a: TimeSpan, b: TimeSpan) -> bool {
    a.as_secs_f64().mul_add(-1.0, b.as_secs_f64()).abs() <= MAX_PERIOD_DIFFERENCE * b.as_secs_f64()
}

/// How the hosts of a job exchange data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangePattern {
    /// Sends to one host, and receives as much from another.
    Ring,
    /// Exchanges equal amounts with all hosts.
    AllToAll,
    /// Exchanges data with one or two neighbours.
    Pipeline,
}
