//! The iteration period of a training job, by its traffic on one host.

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
    /// There is traffic, and it does not repeat itself; or there is none.
    None {
        watched: TimeSpan,
    },
    Found(IterationPeriod),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationPeriod {
    /// From the start of an iteration's traffic to the start of the next one's.
    pub period: TimeSpan,
    /// How much of that the wires rest in one piece: the host computes.
    pub gap: TimeSpan,
    pub sent: Bytes,
    pub received: Bytes,
    pub shape: Option<ExchangePattern>,
    /// How alike the iterations are, to a hundred.
    pub confidence_percent: Percent,
    /// How many iterations this was learned from.
    pub iterations: u32,
    /// When the traffic began to have this period, as far as it was seen.
    pub since: Moment,
    /// When the wires will rest next, by the clock of the one who measures.
    pub next_gap: Moment,
}

impl IterationPeriod {
    /// In both directions, in bytes.
    pub fn exchanged(&self) -> u64 {
        self.sent.count().saturating_add(self.received.count())
    }
}

/// Two periods that differ by no more are the same.
const MAX_PERIOD_DIFFERENCE: f64 = 0.05;

/// Whether an iteration period of the one period goes on in the other.
pub fn is_same_period(a: TimeSpan, b: TimeSpan) -> bool {
    a.as_secs_f64().mul_add(-1.0, b.as_secs_f64()).abs() <= MAX_PERIOD_DIFFERENCE * b.as_secs_f64()
}

/// How the hosts of a job exchange data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExchangePattern {
    /// To one, from another one, as much.
    Ring,
    /// To all and from all the same.
    AllToAll,
    /// To a neighbour and back, or to two.
    Pipeline,
}
