//! Bytes from an attacker: no panic, and no more memory than the bytes are worth.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use reweave_common::hardware::{Lack, Machine};
use reweave_common::moment::Moment;
use reweave_common::operator::{Request, Response};
use reweave_common::periodicity::Periodicity;
use reweave_common::sample::{HostReading, Interface, Reading, Sample};
use serde::de::DeserializeOwned;

use super::arbitrary;
use super::heap::peak_bytes;
use crate::frame::{FrameDecoder, MAX_FRAME_BYTES, WireError, decode, encode};
use crate::hello::Hello;
use crate::message::{AgentMessage, CoordinatorMessage, DriverMessage, DriverOrder};

/// A list that claims to be long gets at most 1 MiB ahead of its elements, at each depth.
const MAX_PREALLOCATED_BYTES: usize = 4 << 20;
/// The emptiest readings take four bytes on the wire and some 100 in memory, and a list grows by
/// moving to a place twice as large.
const MAX_MEMORY_FACTOR: usize = 64;

fn decode_as<T: DeserializeOwned>(bytes: &[u8]) -> usize {
    peak_bytes(|| drop(decode::<T>(bytes)))
}

fn decode_as_everything(bytes: &[u8]) -> usize {
    let peaks = [
        decode_as::<AgentMessage>(bytes),
        decode_as::<CoordinatorMessage>(bytes),
        decode_as::<DriverMessage>(bytes),
        decode_as::<DriverOrder>(bytes),
        decode_as::<Request>(bytes),
        decode_as::<Response>(bytes),
        peak_bytes(|| drop(Hello::decode(bytes))),
    ];
    peaks.into_iter().max().unwrap_or_default()
}

/// Feeds a stream piece by piece, and tells what the decoder held at its worst.
fn decoder_peak(stream: &[u8], piece_bytes: usize) -> usize {
    peak_bytes(|| {
        let mut decoder = FrameDecoder::default();
        for piece in stream.chunks(piece_bytes) {
            decoder.handle_bytes(piece);
            while let Ok(Some(frame)) = decoder.poll_frame() {
                drop(frame);
            }
        }
    })
}

proptest! {
    #![proptest_config(arbitrary::seeded())]

    #[test]
    fn arbitrary_bytes_are_refused_safely(bytes in vec(any::<u8>(), 0..4096)) {
        prop_assert!(decode_as_everything(&bytes) <= MAX_PREALLOCATED_BYTES + MAX_MEMORY_FACTOR * bytes.len());
    }

    #[test]
    fn damaged_messages_are_refused_safely(
        message in arbitrary::agent_message(),
        damage in vec(any::<(prop::sample::Index, u8)>(), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encode(&message).unwrap()[4..].to_vec();
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(1 + cut.index(bytes.len()));
        prop_assert!(decode_as_everything(&bytes) <= MAX_PREALLOCATED_BYTES + MAX_MEMORY_FACTOR * bytes.len());
    }

    #[test]
    fn arbitrary_streams_are_held_in_bounds(
        stream in vec(any::<u8>(), 0..4096),
        piece_bytes in 1..512_usize,
    ) {
        prop_assert!(decoder_peak(&stream, piece_bytes) <= 3 * (stream.len() + piece_bytes));
    }
}

#[test]
fn claimed_length_allocates_nothing() {
    let claim = (MAX_FRAME_BYTES as u32).to_be_bytes();
    assert!(decoder_peak(&claim, 4) <= 256);
}

#[test]
fn bytes_after_oversized_frame_are_dropped() {
    let stream = vec![0xff; 8 << 20];
    assert!(decoder_peak(&stream, 64 << 10) <= 192 << 10);
}

/// The kinds of list that take the most memory for their bytes: readings without content.
#[test]
fn empty_readings_stay_within_memory_bound() {
    let interface = Reading::Interface(Interface {
        name: String::new(),
        addresses: vec![],
        gateways: vec![],
    });
    let watched = Duration::ZERO;
    let hosts = [
        HostReading::Nic(Box::default()),
        HostReading::Machine(Machine::default()),
        HostReading::Neighbour(Box::default()),
        HostReading::Rhythm(Periodicity::None {
            watched: watched.into(),
        }),
        HostReading::Lack(Lack::default()),
        HostReading::NicPlace(Box::default()),
    ];
    for empty in hosts.map(Reading::Host).into_iter().chain([interface]) {
        let bytes = encode(&empty).unwrap().len() - 4;
        let most = MAX_FRAME_BYTES / bytes - 2;
        let frame = encode(&AgentMessage::Sample(Sample {
            taken: Moment::default(),
            readings: vec![empty; most],
        }));
        let frame = frame.unwrap();
        assert!(
            frame.len() > MAX_FRAME_BYTES - 5 * bytes,
            "{} bytes",
            frame.len()
        );
        let peak = decode_as::<AgentMessage>(&frame[4..]);
        assert!(peak <= MAX_MEMORY_FACTOR * MAX_FRAME_BYTES, "{peak} bytes");
    }
}

#[test]
fn absurd_list_length_fails_at_end() {
    let claim = [
        0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
    ];
    assert!(matches!(
        decode::<AgentMessage>(&claim),
        Err(WireError::Garbage(_))
    ));
    assert!(decode_as::<AgentMessage>(&claim) <= MAX_PREALLOCATED_BYTES);
}
