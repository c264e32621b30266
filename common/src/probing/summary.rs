//! Summary of probe counters, for people and scripts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Durations, Loss, ProbePart, ProbeTally, Routers, Stamped};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Summary {
    /// Probes with a responder and a known outcome.
    pub sent: u64,
    pub lost: u64,
    /// Number of those that were lost on the way there, and on the way back.
    pub lost_there: u32,
    pub lost_back: u32,
    pub loss: Option<Loss>,
    pub refused: u32,
    /// Probes in flight while the prober or the responder was stalled: counted neither as answered nor as lost.
    pub stalled: u32,
    /// Probes that this host could not send; those that a rule of its kernel drops, and those that found a full queue.
    pub unsent: u64,
    pub unsent_forbidden: u32,
    pub unsent_no_room: u32,
    /// Probes of the sender's MTU size, which are not counted elsewhere, and the lost ones among them.
    pub large_sent: u64,
    pub large_lost: u32,
    pub reordered: u32,
    pub duplicated: u32,
    pub untimed: u32,
    pub network_us: Option<Spread>,
    pub responder_us: Option<Spread>,
    pub prober_us: Option<Spread>,
    pub jitter_us: Option<Spread>,
    pub stamped: Stamped,
    pub routers: Option<Routers>,
}

/// Distribution of durations, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub p99: f64,
    pub most: f64,
}

impl From<&ProbeTally> for Summary {
    fn from(tally: &ProbeTally) -> Self {
        let spread = |part| Spread::of(tally.times.of(part));
        Self {
            sent: tally.sent(),
            lost: tally.lost.count(),
            lost_there: tally.lost.there,
            lost_back: tally.lost.back,
            loss: tally.loss(),
            refused: tally.refused,
            stalled: tally.stalled,
            unsent: tally.unsent.count(),
            unsent_forbidden: tally.unsent.forbidden,
            unsent_no_room: tally.unsent.no_room,
            large_sent: tally.large.sent(),
            large_lost: tally.large.lost,
            reordered: tally.reordered,
            duplicated: tally.duplicated,
            untimed: tally.untimed,
            network_us: spread(ProbePart::Network),
            responder_us: spread(ProbePart::Responder),
            prober_us: spread(ProbePart::Prober),
            jitter_us: spread(ProbePart::Jitter),
            stamped: tally.stamped,
            routers: tally.routers,
        }
    }
}

impl Spread {
    /// Returns none without durations.
    pub fn of(durations: Durations<'_>) -> Option<Self> {
        let micros = |duration: Duration| duration.as_nanos() as f64 / 1e3;
        let [least, median, p99, most] = durations.quantiles([0.0, 0.5, 0.99, 1.0])?.map(micros);
        Some(Self {
            least,
            median,
            p99,
            most,
        })
    }
}
