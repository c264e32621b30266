//! Health of an interface, an RDMA port or a whole host, by counters.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time_span::TimeSpan;

/// What a counter belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CounterSource {
    Interface(#[serde(deserialize_with = "crate::printable::text")] String),
    RdmaPort {
        #[serde(deserialize_with = "crate::printable::text")]
        device: String,
        port: u8,
    },
    Host,
}

/// The meaning of a counter, under any name that its driver has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Packets whose check sequence was wrong: the cable, the optics, the lanes.
    FrameErrors,
    /// Bits that forward error correction has repaired: the early sign of a dying optic.
    CorrectedBits,
    /// Symbols that it could not repair.
    SymbolErrors,
    /// How often the link was lost.
    LinkDowns,
    /// How often the lanes had to be trained again.
    Retrains,
    HotModule,
    /// Packets that the NIC had no room for.
    Discards,
    /// Packets longer than this end takes: the other has a larger MTU.
    Oversized,
    /// The other end asked to pause, by priority.
    Pauses(u8),
    /// For how many microseconds this end stood still because of it, by priority.
    PausedMicros(u8),
    /// This end has made the other pause for suspiciously long.
    PauseStormWarnings,
    /// Long enough for the NIC to give up pausing it.
    PauseStormErrors,
    /// Ticks with data to send and no credit for it.
    CreditWaits,
    /// The receiver of an RDMA connection has seen a gap.
    OutOfSequence,
    /// Its sender was notified of one.
    SequenceNaks,
    /// No acknowledgement in time: a lost tail, or a black hole.
    AckTimeouts,
    /// As receiver, notified the sender that packets came marked by congestion.
    CongestionNoticesSent,
    /// As sender, slowed down because of such a notice.
    CongestionNoticesHeeded,
    /// Corruption inside the fabric, between links.
    PayloadErrors,
    /// The receiver had posted too few buffers.
    OutOfBuffers,
    /// The sender was notified.
    NotReadyRetries,
    ReceiveErrors,
    SendErrors,
    /// The kernel dropped what had arrived.
    ReceiveDrops,
    SendDrops,
    /// The driver's ring was full.
    ReceiveMissed,
    /// A queue of the kernel was full.
    QueueDrops,
    /// Backlogs of the kernel were full.
    SoftirqDrops,
    /// The kernel had to put off work on packets.
    SoftirqSqueezes,
}

/// All signals ever counted at one place, and their growth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub place: CounterSource,
    /// The time since the reading before; zero in the first.
    #[serde(rename = "over_ns", with = "crate::nanos")]
    pub over: TimeSpan,
    pub signals: Vec<SignalReading>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalReading {
    pub signal: Signal,
    /// As the counter stands.
    pub total: u64,
    /// Since the reading before; absent in the first, when the counter began again meanwhile, and
    /// when it can count no further.
    pub grown: Option<u64>,
    /// Of how many packets or bits that is a part, where this is known.
    pub of: Option<u64>,
}

impl Health {
    pub fn per_s(&self, reading: &SignalReading) -> Option<f64> {
        let seconds = self.over.as_secs_f64();
        let grown = reading.grown.filter(|_| seconds > 0.0)?;
        Some(grown as f64 / seconds)
    }
}

impl SignalReading {
    /// The part of packets or bits that had the trouble.
    pub fn ratio(&self) -> Option<f64> {
        let of = self.of.filter(|&of| of > 0)?;
        Some(self.grown? as f64 / of as f64)
    }
}

impl fmt::Display for CounterSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => f.write_str(name),
            Self::RdmaPort { device, port } => write!(f, "{device}/{port}"),
            Self::Host => f.write_str("host"),
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pauses(priority) => write!(f, "pauses, priority {priority}"),
            Self::PausedMicros(priority) => write!(f, "paused us, priority {priority}"),
            other => f.write_str(other.words()),
        }
    }
}

impl Signal {
    fn words(self) -> &'static str {
        match self {
            Self::FrameErrors => "frame errors",
            Self::CorrectedBits => "corrected bits",
            Self::SymbolErrors => "symbol errors",
            Self::LinkDowns => "link downs",
            Self::Retrains => "retrains",
            Self::HotModule => "hot module",
            Self::Discards => "discards",
            Self::Oversized => "oversized",
            Self::Pauses(_) => "pauses",
            Self::PausedMicros(_) => "paused us",
            Self::PauseStormWarnings => "pause storm warnings",
            Self::PauseStormErrors => "pause storm errors",
            Self::CreditWaits => "credit waits",
            Self::OutOfSequence => "out of sequence",
            Self::SequenceNaks => "sequence NAKs",
            Self::AckTimeouts => "ack timeouts",
            Self::CongestionNoticesSent => "congestion notices sent",
            Self::CongestionNoticesHeeded => "congestion notices heeded",
            Self::PayloadErrors => "payload errors",
            Self::OutOfBuffers => "out of buffers",
            Self::NotReadyRetries => "not ready retries",
            Self::ReceiveErrors => "receive errors",
            Self::SendErrors => "send errors",
            Self::ReceiveDrops => "receive drops",
            Self::SendDrops => "send drops",
            Self::ReceiveMissed => "receive missed",
            Self::QueueDrops => "queue drops",
            Self::SoftirqDrops => "softirq drops",
            Self::SoftirqSqueezes => "softirq squeezes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_ratio_needs_growth_and_total() {
        let reading = |grown, of| SignalReading {
            signal: Signal::FrameErrors,
            total: 9,
            grown,
            of,
        };
        assert_eq!(reading(Some(5), Some(1000)).ratio(), Some(0.005));
        assert_eq!(reading(Some(0), Some(1000)).ratio(), Some(0.0));
        assert_eq!(reading(Some(5), None).ratio(), None);
        assert_eq!(reading(None, Some(1000)).ratio(), None);
        assert_eq!(reading(Some(0), Some(0)).ratio(), None);
    }

    #[test]
    fn signal_rate_needs_time() {
        let reading = SignalReading {
            signal: Signal::Discards,
            total: 30,
            grown: Some(30),
            of: None,
        };
        let mut health = Health {
            place: CounterSource::Host,
            over: TimeSpan::from_millis(2000),
            signals: vec![reading],
        };
        assert_eq!(health.per_s(&reading), Some(15.0));
        health.over = TimeSpan::ZERO;
        assert_eq!(health.per_s(&reading), None);
    }
}
