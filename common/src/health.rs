//! Health of an interface, an RDMA port or a host, from counters.

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

/// Meaning of a counter, independent of the driver's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Frames with a bad checksum: caused by cable, optics or lanes.
    FrameErrors,
    /// Bits corrected by forward error correction: an early sign of a dying optic.
    CorrectedBits,
    /// Symbols that could not be corrected.
    SymbolErrors,
    /// Number of times that the link went down.
    LinkDowns,
    /// Number of times that the lanes were trained again.
    Retrains,
    HotModule,
    /// Packets that the NIC had no buffer for.
    Discards,
    /// Packets above the MTU of this end: the other end has a larger MTU.
    Oversized,
    /// Pause frames from the other end, by priority.
    Pauses(u8),
    /// Microseconds for which this end paused, by priority.
    PausedMicros(u8),
    /// This end has paused the other for suspiciously long.
    PauseStormWarnings,
    /// This end paused the other until the NIC stopped sending pauses.
    PauseStormErrors,
    /// Ticks with data to send and without credit.
    CreditWaits,
    /// The receiver of an RDMA connection saw a gap in the sequence.
    OutOfSequence,
    /// The sender was notified of a gap.
    SequenceNaks,
    /// No acknowledgement in time: a lost tail, or a black hole.
    AckTimeouts,
    /// As a receiver, notified the sender of congestion marks.
    CongestionNoticesSent,
    /// As a sender, slowed down after such a notification.
    CongestionNoticesHeeded,
    /// Corruption inside the fabric, between links.
    PayloadErrors,
    /// The receiver had posted too few buffers.
    OutOfBuffers,
    /// The sender was notified of missing buffers.
    NotReadyRetries,
    ReceiveErrors,
    SendErrors,
    /// The kernel dropped received packets.
    ReceiveDrops,
    SendDrops,
    /// The driver's ring was full.
    ReceiveMissed,
    /// A queue of the kernel was full.
    QueueDrops,
    /// The backlog of the kernel was full.
    SoftirqDrops,
    /// The kernel postponed packet processing.
    SoftirqSqueezes,
}

/// All counters of one place, with their growth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    pub place: CounterSource,
    /// Time since the previous reading; zero in the first.
    #[serde(rename = "over_ns", with = "crate::nanos")]
    pub over: TimeSpan,
    pub signals: Vec<SignalReading>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalReading {
    pub signal: Signal,
    /// Value of the counter.
    pub total: u64,
    /// Growth since the previous reading; absent in the first, after a reset of the counter, and at its maximum.
    pub grown: Option<u64>,
    /// Number of packets or bits that the growth is part of, if known.
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
    /// Returns the affected share of packets or bits.
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
