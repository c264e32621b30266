//! Letters in parts.

use crate::frame::WireError;
use crate::message::PeerPart;
use crate::parts::{MAX_LETTER_BYTES, PartAssembler, cut, encode, encode_within};

#[test]
fn peer_message_completes_with_last_part() {
    let letter = (7_u64, "what was decided".to_owned());
    let bytes = encode(&letter).unwrap();
    for part_bytes in 1..=bytes.len() + 1 {
        let mut joiner = PartAssembler::default();
        for _ in 0..2 {
            let parts: Vec<_> = cut(&bytes, part_bytes).collect();
            assert_eq!(parts.len(), bytes.len().div_ceil(part_bytes));
            let (last, before) = parts.split_last().unwrap();
            for part in before {
                assert_eq!(joiner.join::<(u64, String)>(part), Ok(None));
            }
            let joined = joiner.join::<(u64, String)>(last);
            assert_eq!(joined, Ok(Some(letter.clone())));
        }
    }
}

/// The other end would throw it away, and end the connection.
#[test]
fn longer_message_is_not_encoded() {
    // Four bytes say how long it is.
    let mut text = "x".repeat(MAX_LETTER_BYTES - 4);
    let length = |text: &String| encode(text).map(|bytes| bytes.len());
    assert_eq!(length(&text), Ok(MAX_LETTER_BYTES));
    text.push('x');
    let oversized = WireError::Oversized {
        length_bytes: MAX_LETTER_BYTES + 1,
        limit_bytes: MAX_LETTER_BYTES,
    };
    assert_eq!(length(&text), Err(oversized));
}

#[test]
fn joiner_rejects_endless_message() {
    let part = PeerPart {
        is_last: false,
        bytes: vec![0; 1 << 20],
    };
    let mut joiner = PartAssembler::default();
    for _ in 0..MAX_LETTER_BYTES >> 20 {
        assert_eq!(joiner.join::<u8>(&part), Ok(None));
    }
    let refused = joiner.join::<u8>(&part);
    assert!(
        matches!(refused, Err(WireError::Oversized { .. })),
        "{refused:?}"
    );
}

/// One with a snapshot is longer, and the receiver says from which part on that may be.
#[test]
fn longer_message_is_joined_within_limit() {
    let text = "x".repeat(100);
    let refused = encode_within(100, &text);
    let oversized = |length_bytes| WireError::Oversized {
        length_bytes,
        limit_bytes: 100,
    };
    assert_eq!(refused, Err(oversized(101)));
    let bytes = encode_within(101, &text).unwrap();
    let parts: Vec<_> = cut(&bytes, 60).collect();
    let mut joiner = PartAssembler::default();
    assert_eq!(joiner.join_within::<String>(60, &parts[0]), Ok(None));
    let refused = joiner.join_within::<String>(100, &parts[1]);
    assert_eq!(refused, Err(oversized(101)));
    let joined = joiner.join_within(101, &parts[1]);
    assert_eq!(joined, Ok(Some(text)));
}

#[test]
fn message_with_trailing_bytes_is_refused() {
    let bytes = [&encode(&7_u8).unwrap()[..], &[0]].concat();
    let part = PeerPart {
        is_last: true,
        bytes,
    };
    let refused = PartAssembler::default().join::<u8>(&part);
    assert_eq!(refused, Err(WireError::Trailing { extra_bytes: 1 }));
}
