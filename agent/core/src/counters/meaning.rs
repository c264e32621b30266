//! The names of counters in drivers and kernels.

use reweave_common::health::Signal;

/// The driver or kernel whose names these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `ethtool -S`
    Driver,
    /// /sys/class/net/*/statistics
    Statistics,
    /// /sys/class/infiniband/*/ports/*/counters
    Port,
    /// /sys/class/infiniband/*/ports/*/hw_counters
    PortHardware,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    Signal {
        signal: Signal,
        /// The largest value of its field, at which it stays.
        most: Option<u64>,
    },
    Whole(Whole),
}

/// The total that a signal is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whole {
    ReceivedPackets,
    SentPackets,
    ReceivedBits,
    /// Packets over RDMA.
    PortReceivedPackets,
}

impl From<Signal> for Meaning {
    fn from(signal: Signal) -> Self {
        Self::Signal { signal, most: None }
    }
}

impl Whole {
    pub(super) fn of(signal: Signal) -> Option<Self> {
        Some(match signal {
            Signal::FrameErrors
            | Signal::Discards
            | Signal::Oversized
            | Signal::ReceiveErrors
            | Signal::ReceiveDrops
            | Signal::ReceiveMissed => Self::ReceivedPackets,
            Signal::SendErrors | Signal::SendDrops | Signal::QueueDrops => Self::SentPackets,
            Signal::CorrectedBits | Signal::SymbolErrors => Self::ReceivedBits,
            Signal::OutOfSequence | Signal::PayloadErrors | Signal::OutOfBuffers => {
                Self::PortReceivedPackets
            }
            _ => return None,
        })
    }

    /// Whether the total includes the packets in trouble.
    pub(super) fn has_parts(self) -> bool {
        matches!(self, Self::ReceivedBits | Self::PortReceivedPackets)
    }
}

/// The meaning of a counter of that name, if it matters.
pub fn meaning(origin: Origin, name: &str) -> Option<Meaning> {
    match origin {
        Origin::Driver => driver(name).or_else(|| by_priority(name).map(Meaning::from)),
        Origin::Statistics => statistics(name),
        Origin::Port => port(name),
        Origin::PortHardware => port_hardware(name).map(Meaning::from),
    }
}

/// Names in mlx5, bnxt_en and ice.
fn driver(name: &str) -> Option<Meaning> {
    let signal = match name {
        "rx_crc_errors_phy" | "rx_fcs_err_frames" | "rx_crc_errors.nic" => Signal::FrameErrors,
        "rx_corrected_bits_phy" | "rx_corrected_bits" => Signal::CorrectedBits,
        "rx_pcs_symbol_err_phy" | "rx_pcs_symbol_err" => Signal::SymbolErrors,
        "link_down_events_phy" | "link_down_events" => Signal::LinkDowns,
        "module_high_temp" => Signal::HotModule,
        "rx_discards_phy" => Signal::Discards,
        "rx_oversize_pkts_phy" | "rx_ovrsz_frames" | "rx_oversize.nic" => Signal::Oversized,
        "tx_pause_storm_warning_events" => Signal::PauseStormWarnings,
        "tx_pause_storm_error_events" => Signal::PauseStormErrors,
        "rx_bits_phy" => return Some(Meaning::Whole(Whole::ReceivedBits)),
        "rx_packets_phy" => return Some(Meaning::Whole(Whole::ReceivedPackets)),
        "tx_packets_phy" => return Some(Meaning::Whole(Whole::SentPackets)),
        _ => return None,
    };
    Some(signal.into())
}

/// `rx_prio3_pause`, `rx_prio3_pause_duration`; in other drivers `rx_pfc_ena_frames_pri3` and
/// `rx_priority_3_xoff.nic`.
fn by_priority(name: &str) -> Option<Signal> {
    let between = |before: &str, after: &str| -> Option<u8> {
        let priority = name.strip_prefix(before)?.strip_suffix(after)?;
        priority.parse().ok().filter(|&priority| priority < 8)
    };
    let pauses = between("rx_prio", "_pause")
        .or_else(|| between("rx_pfc_ena_frames_pri", ""))
        .or_else(|| between("rx_priority_", "_xoff.nic"));
    pauses
        .map(Signal::Pauses)
        .or_else(|| between("rx_prio", "_pause_duration").map(Signal::PausedMicros))
}

fn statistics(name: &str) -> Option<Meaning> {
    let signal = match name {
        "rx_crc_errors" => Signal::FrameErrors,
        "rx_errors" => Signal::ReceiveErrors,
        "tx_errors" => Signal::SendErrors,
        "rx_dropped" => Signal::ReceiveDrops,
        "tx_dropped" => Signal::SendDrops,
        "rx_missed_errors" => Signal::ReceiveMissed,
        "rx_packets" => return Some(Meaning::Whole(Whole::ReceivedPackets)),
        "tx_packets" => return Some(Meaning::Whole(Whole::SentPackets)),
        _ => return None,
    };
    Some(signal.into())
}

/// Counters of InfiniBand performance management stop at the end of their fields.
fn port(name: &str) -> Option<Meaning> {
    let (signal, bits) = match name {
        "symbol_error" => (Signal::SymbolErrors, 16),
        "link_error_recovery" => (Signal::Retrains, 8),
        "link_downed" => (Signal::LinkDowns, 8),
        "port_rcv_errors" => (Signal::ReceiveErrors, 16),
        "port_xmit_discards" => (Signal::SendDrops, 16),
        "port_xmit_wait" => (Signal::CreditWaits, 32),
        "port_rcv_packets" => return Some(Meaning::Whole(Whole::PortReceivedPackets)),
        _ => return None,
    };
    let most = Some((1 << bits) - 1);
    Some(Meaning::Signal { signal, most })
}

/// Names in mlx5 and Soft-RoCE.
fn port_hardware(name: &str) -> Option<Signal> {
    Some(match name {
        "out_of_sequence" | "out_of_seq_request" => Signal::OutOfSequence,
        "packet_seq_err" | "rcvd_seq_err" => Signal::SequenceNaks,
        "local_ack_timeout_err" | "retry_exceeded_err" => Signal::AckTimeouts,
        "np_cnp_sent" => Signal::CongestionNoticesSent,
        "rp_cnp_handled" => Signal::CongestionNoticesHeeded,
        "rx_icrc_encapsulated" => Signal::PayloadErrors,
        "out_of_buffer" => Signal::OutOfBuffers,
        "rnr_nak_retry_err" | "rcvd_rnr_err" => Signal::NotReadyRetries,
        _ => return None,
    })
}
