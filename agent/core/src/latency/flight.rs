//! One probe from its departure to its outcome.

use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::probing::{Routers, Stamps};

use super::packet::ProbeAnswer;
use super::{Clocks, ResponderDelay, Stamp, TTL};

/// An answer that is later than this counts as lost.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) number: u32,
    pub(super) flow: FlowKey,
    pub(super) sent: Clocks,
    pub(super) left: Option<Stamp>,
    /// The probe is as large as the MTU. Only its arrival matters.
    pub(super) is_large: bool,
    /// The prober or the responder was stalled while it was in flight.
    pub(super) is_stalled: bool,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    Flying,
    Answered(Landing),
    /// Its times are reported. That it was answered counts only after the timeout: losses are known late, so counting
    /// answers at once would make the loss appear smaller.
    Timed,
    /// It had no responder, and that is reported.
    Reported,
}

#[derive(Debug)]
pub(super) struct Landing {
    pub(super) arrived: Stamp,
    pub(super) read: Clocks,
    pub(super) held: Option<ResponderDelay>,
    /// Whether `held` is final, and not the estimate from before the answer left.
    pub(super) is_final: bool,
    pub(super) routers: Routers,
}

/// The durations of the parts of an answered probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) network: Duration,
    pub(super) responder: Duration,
    pub(super) prober: Duration,
    pub(super) stamps: Stamps,
}

impl Flight {
    pub(super) fn new(number: u32, flow: FlowKey, sent: Clocks, is_large: bool) -> Self {
        Self {
            number,
            flow,
            sent,
            left: None,
            is_large,
            is_stalled: false,
            state: State::Flying,
        }
    }

    pub(super) fn age(&self, now: &Clocks) -> Duration {
        Duration::from_nanos(now.steady_ns.saturating_sub(self.sent.steady_ns))
    }

    /// Whether the network delivered the answer in time, without the responder's hold time.
    pub(super) fn is_in_time(&self, read: &Clocks, held: Option<ResponderDelay>) -> bool {
        let held = held.map_or(Duration::ZERO, |held| Duration::from_nanos(held.nanos));
        self.age(read).saturating_sub(held) < ANSWER_TIMEOUT
    }

    /// Whether all timestamps have arrived.
    pub(super) fn is_complete(&self) -> bool {
        let is_final = matches!(&self.state, State::Answered(landing) if landing.is_final);
        is_final && self.left.is_some() && !self.is_large
    }
}

impl Landing {
    pub(super) fn new(answer: &ProbeAnswer, arrived: Stamp, ttl: u8, read: Clocks) -> Self {
        Self {
            arrived,
            read,
            held: answer.held,
            is_final: false,
            routers: Routers {
                there: TTL.saturating_sub(answer.ttl),
                back: TTL.saturating_sub(ttl),
            },
        }
    }

    /// None if a clock was set, or the figures are impossible.
    pub(super) fn split(&self, flight: &Flight) -> Option<Split> {
        let left = flight.left.unwrap_or_default();
        let away = left.until(&self.arrived, [&flight.sent, &self.read])?;
        let held = self.held?;
        let whole = self.read.steady_ns.checked_sub(flight.sent.steady_ns)?;
        let network = away.nanos.checked_sub(held.nanos)?;
        let prober = match away.stamps {
            // The program's clock differs slightly from the NIC's.
            Stamps::Hardware => whole.saturating_sub(away.nanos),
            _ => whole.checked_sub(away.nanos)?,
        };
        Some(Split {
            network: Duration::from_nanos(network),
            responder: Duration::from_nanos(held.nanos),
            prober: Duration::from_nanos(prober),
            stamps: away.stamps.min(held.stamps),
        })
    }
}
