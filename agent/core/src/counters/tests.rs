//! All known counters, by the names and values of real NICs.

use reweave_common::time_span::TimeSpan;

use super::texts::named_numbers;
use super::*;

/// All signals of faults, by the names in drivers and kernels.
const COUNTER_NAMES: [(Origin, &str, Signal); 24] = [
    (Origin::Driver, "rx_crc_errors_phy", Signal::FrameErrors),
    (Origin::Statistics, "rx_crc_errors", Signal::FrameErrors),
    (
        Origin::Driver,
        "rx_corrected_bits_phy",
        Signal::CorrectedBits,
    ),
    (
        Origin::Driver,
        "rx_pcs_symbol_err_phy",
        Signal::SymbolErrors,
    ),
    (Origin::Driver, "link_down_events_phy", Signal::LinkDowns),
    (Origin::Driver, "module_high_temp", Signal::HotModule),
    (Origin::Driver, "rx_discards_phy", Signal::Discards),
    (Origin::Driver, "rx_oversize_pkts_phy", Signal::Oversized),
    (Origin::Driver, "rx_prio3_pause", Signal::Pauses(3)),
    (
        Origin::Driver,
        "rx_prio0_pause_duration",
        Signal::PausedMicros(0),
    ),
    (
        Origin::Driver,
        "tx_pause_storm_warning_events",
        Signal::PauseStormWarnings,
    ),
    (
        Origin::Driver,
        "tx_pause_storm_error_events",
        Signal::PauseStormErrors,
    ),
    (Origin::Port, "symbol_error", Signal::SymbolErrors),
    (Origin::Port, "link_error_recovery", Signal::Retrains),
    (Origin::Port, "link_downed", Signal::LinkDowns),
    (Origin::Port, "port_xmit_wait", Signal::CreditWaits),
    (
        Origin::PortHardware,
        "out_of_sequence",
        Signal::OutOfSequence,
    ),
    (Origin::PortHardware, "packet_seq_err", Signal::SequenceNaks),
    (
        Origin::PortHardware,
        "local_ack_timeout_err",
        Signal::AckTimeouts,
    ),
    (
        Origin::PortHardware,
        "np_cnp_sent",
        Signal::CongestionNoticesSent,
    ),
    (
        Origin::PortHardware,
        "rp_cnp_handled",
        Signal::CongestionNoticesHeeded,
    ),
    (
        Origin::PortHardware,
        "rx_icrc_encapsulated",
        Signal::PayloadErrors,
    ),
    (Origin::PortHardware, "out_of_buffer", Signal::OutOfBuffers),
    (
        Origin::PortHardware,
        "rnr_nak_retry_err",
        Signal::NotReadyRetries,
    ),
];

/// The output format of `ethtool -S`.
fn driver(text: &str) -> Vec<(Meaning, u64)> {
    counts(Origin::Driver, text)
}

fn counts(origin: Origin, text: &str) -> Vec<(Meaning, u64)> {
    let named = named_numbers(text);
    named
        .filter_map(|(name, value)| Some((meaning(origin, name)?, value)))
        .collect()
}

fn eth0(counts: Vec<(Meaning, u64)>) -> Counts {
    Counts {
        place: CounterSource::Interface("eth0".to_owned()),
        counts,
    }
}

fn at(second: u64) -> Moment {
    Moment::from_micros(second * 1_000_000)
}

/// The readings after counters were read twice, a second apart.
fn second_reading(first: Vec<(Meaning, u64)>, second: Vec<(Meaning, u64)>) -> Vec<SignalReading> {
    let mut book = HealthBook::default();
    book.handle_counts(at(0), &[eth0(first)]);
    let said = book.handle_counts(at(1), &[eth0(second)]);
    assert!(said.iter().all(|it| it.over == TimeSpan::from_secs(1)));
    said.into_iter().flat_map(|it| it.signals).collect()
}

fn grown(readings: &[SignalReading], signal: Signal) -> Option<u64> {
    let found = readings.iter().find(|it| it.signal == signal)?;
    found.grown
}

#[test]
fn every_relevant_counter_has_meaning() {
    for (origin, name, expected) in COUNTER_NAMES {
        match meaning(origin, name) {
            Some(Meaning::Signal { signal, .. }) => assert_eq!(signal, expected, "{name}"),
            other => panic!("{name} means {other:?}"),
        }
    }
    for foreign in [
        "rx_prio8_pause",
        "rx_priox_pause",
        "rx_prio_pause",
        "rx0_packets",
    ] {
        assert_eq!(meaning(Origin::Driver, foreign), None, "{foreign}");
    }
}

#[test]
fn corrected_bits_relate_to_all_bits() {
    let first = driver("rx_corrected_bits_phy: 100\nrx_bits_phy: 1000000");
    let second = driver("rx_corrected_bits_phy: 350\nrx_bits_phy: 101000000");
    let said = second_reading(first, second);
    assert_eq!(said[0].ratio(), Some(2.5e-6));
}

#[test]
fn errored_frames_are_not_received_frames() {
    let first = driver("rx_crc_errors_phy: 0\nrx_packets_phy: 100");
    let second = driver("rx_crc_errors_phy: 5\nrx_packets_phy: 195");
    assert_eq!(second_reading(first, second)[0].ratio(), Some(0.05));
}

#[test]
fn driver_counter_outranks_kernel() {
    let both = |by_driver: u64| {
        let mut counts = driver(&format!("rx_crc_errors_phy: {by_driver}"));
        counts.extend(super::tests::counts(
            Origin::Statistics,
            "rx_crc_errors: 9000",
        ));
        counts
    };
    assert_eq!(
        grown(&second_reading(both(1), both(4)), Signal::FrameErrors),
        Some(3)
    );
}

#[test]
fn zero_counter_is_omitted_until_growth() {
    let said = second_reading(driver("rx_discards_phy: 0"), driver("rx_discards_phy: 0"));
    assert_eq!(said, []);
    let said = second_reading(driver("rx_discards_phy: 0"), driver("rx_discards_phy: 2"));
    assert_eq!(grown(&said, Signal::Discards), Some(2));
}

#[test]
fn saturated_counter_has_no_growth() {
    let port = |value: u64| counts(Origin::Port, &format!("link_downed: {value}"));
    assert_eq!(
        grown(&second_reading(port(3), port(5)), Signal::LinkDowns),
        Some(2)
    );
    assert_eq!(
        grown(&second_reading(port(255), port(255)), Signal::LinkDowns),
        None
    );
}

#[test]
fn reloaded_driver_restarts_counters() {
    let discards = |value: u64| {
        eth0(driver(&format!(
            "rx_discards_phy: {value}\nrx_packets_phy: 1"
        )))
    };
    let mut book = HealthBook::default();
    let mut said = [9000, 3, 10]
        .into_iter()
        .enumerate()
        .map(|(second, value)| {
            let said = book.handle_counts(at(second as u64), &[discards(value)]);
            said[0].signals[0].grown
        });
    let said: Vec<_> = said.by_ref().collect();
    assert_eq!(said, [None, None, Some(7)]);
}

#[test]
fn returning_interface_restarts_counters() {
    let place = || eth0(driver("rx_discards_phy: 5"));
    let mut book = HealthBook::default();
    book.handle_counts(at(0), &[place()]);
    assert_eq!(book.handle_counts(at(1), &[]), []);
    let back = book.handle_counts(at(2), &[place()]);
    assert_eq!(
        (back[0].over, back[0].signals[0].grown),
        (TimeSpan::ZERO, None)
    );
}
