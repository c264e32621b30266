//! Messages between coordinators, in parts of any size.

#![no_main]

// The coordinator is a program, which has nothing for others.
#[allow(dead_code)]
#[path = "../../../../coordinator/src/replication/peer_messages.rs"]
mod peer_messages;

use peer_messages::PeerMessage;
use reweave_proto::message::PeerPart;
use reweave_proto::parts::{PartAssembler, cut};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut joiner = PartAssembler::default();
    let size = bytes.first().map_or(1, |first| usize::from(*first) + 1);
    let pieces = bytes.get(1..).unwrap_or_default().chunks(size);
    let count = pieces.len();
    for (number, piece) in pieces.enumerate() {
        // What is left of a message that was none must not be taken for the next one's beginning.
        let is_last = number + 1 == count || piece.first() == Some(&0xff);
        let part = PeerPart {
            is_last,
            bytes: piece.to_vec(),
        };
        let joined = joiner.join::<PeerMessage>(&part);
        assert!(is_last || matches!(joined, Ok(None)));
        if let Ok(Some(message)) = joined {
            passed_on(&message);
        }
    }
});

/// What was understood is understood again, and whole with its last part.
fn passed_on(message: &PeerMessage) {
    let said = postcard::to_stdvec(message).expect("it can be written");
    let mut joiner = PartAssembler::default();
    let joined = cut(&said, 7).map(|part| joiner.join::<PeerMessage>(&part).expect("and read"));
    let again = joined.last().flatten().expect("it is whole");
    assert_eq!(postcard::to_stdvec(&again), Ok(said));
}
