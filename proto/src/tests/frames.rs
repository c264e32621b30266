//! Frames found in streams: whole, in pieces, cut off, too long.

use proptest::collection::vec;
use proptest::prelude::*;

use super::heap::held_bytes;
use crate::frame::{FrameDecoder, MAX_FRAME_BYTES, WireError, decode, encode};

/// All frames of `stream`, handed in by `pieces` of these lengths, repeated.
fn frames_in(stream: &[u8], pieces: &[usize]) -> Result<Vec<Vec<u8>>, WireError> {
    let mut decoder = FrameDecoder::default();
    let mut frames = vec![];
    let mut rest = stream;
    for &length in pieces.iter().cycle() {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        decoder.handle_bytes(piece);
        while let Some(frame) = decoder.poll_frame()? {
            frames.push(frame.to_vec());
        }
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    decoder.handle_end().map(|()| frames)
}

fn stream_of(messages: &[Vec<u8>]) -> Vec<u8> {
    messages
        .iter()
        .flat_map(|message| encode(message).unwrap())
        .collect()
}

proptest! {
    #![proptest_config(super::arbitrary::seeded())]

    #[test]
    fn frames_decode_from_any_pieces(
        messages in vec(vec(any::<u8>(), 0..300), 0..8),
        pieces in vec(1..200_usize, 1..8),
    ) {
        let frames = frames_in(&stream_of(&messages), &pieces).unwrap();
        let found: Vec<Vec<u8>> = frames.iter().map(|frame| decode(frame).unwrap()).collect();
        prop_assert_eq!(found, messages);
    }

    #[test]
    fn stream_cut_inside_frame_is_truncated(
        message in vec(any::<u8>(), 0..300),
        cut in any::<prop::sample::Index>(),
    ) {
        let frame = encode(&message).unwrap();
        let cut = 1 + cut.index(frame.len() - 1);
        let truncated = Err(WireError::Truncated { held_bytes: cut });
        prop_assert_eq!(frames_in(&frame[..cut], &[64]), truncated);
    }
}

#[test]
fn decoder_holds_nothing_between_frames() {
    let frame = encode(&vec![7_u8; 20_000]).unwrap();
    let after = |frames: usize, more: &[u8]| {
        held_bytes(|| {
            let mut decoder = FrameDecoder::default();
            let stream = frame.repeat(frames);
            for piece in stream.chunks(1200).chain([more]) {
                decoder.handle_bytes(piece);
                while decoder.poll_frame().unwrap().is_some() {}
            }
            decoder
        })
    };
    assert_eq!(after(1, &[]), 0);
    assert!(after(1, &frame[..100]) >= 100);
}

#[test]
fn longest_frame_passes_longer_does_not() {
    let with_length = |length: u32| {
        let mut decoder = FrameDecoder::default();
        decoder.handle_bytes(&length.to_be_bytes());
        decoder.poll_frame()
    };
    let limit = MAX_FRAME_BYTES as u32;
    assert_eq!(with_length(limit), Ok(None));
    let oversized = WireError::Oversized {
        length_bytes: MAX_FRAME_BYTES + 1,
        limit_bytes: MAX_FRAME_BYTES,
    };
    assert_eq!(with_length(limit + 1), Err(oversized.clone()));
    assert_eq!(
        oversized.to_string(),
        "a frame of 1048577 bytes, and the limit is 1048576"
    );
}

#[test]
fn oversized_message_is_not_encoded() {
    let fits = vec![0_u8; MAX_FRAME_BYTES - 3];
    assert_eq!(encode(&fits).unwrap().len(), 4 + MAX_FRAME_BYTES);
    let too_long = vec![0_u8; MAX_FRAME_BYTES - 2];
    assert!(matches!(
        encode(&too_long),
        Err(WireError::Oversized { .. })
    ));
}

#[test]
fn bad_frame_stops_delivery() {
    let mut decoder = FrameDecoder::default();
    decoder.handle_bytes(&encode(&7_u8).unwrap());
    decoder.handle_bytes(&u32::MAX.to_be_bytes());
    assert_eq!(decoder.poll_frame().unwrap().unwrap()[..], [7]);
    for _ in 0..2 {
        assert!(matches!(
            decoder.poll_frame(),
            Err(WireError::Oversized { .. })
        ));
        decoder.handle_bytes(&encode(&8_u8).unwrap());
    }
}

#[test]
fn frame_limit_can_be_raised() {
    let frame = encode(&[7_u8; 30]).unwrap();
    let mut stranger = FrameDecoder::with_limit(29);
    stranger.handle_bytes(&frame);
    assert!(stranger.poll_frame().is_err());
    let mut peer = FrameDecoder::with_limit(29);
    peer.raise_limit(30);
    peer.handle_bytes(&frame);
    assert_eq!(peer.poll_frame().unwrap().unwrap()[..], [7; 30]);
}

#[test]
fn trailing_bytes_are_refused() {
    let trailing = WireError::Trailing { extra_bytes: 2 };
    assert_eq!(decode::<u8>(&[1, 2, 3]), Err(trailing));
}
