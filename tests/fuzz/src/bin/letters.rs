//! Letters between coordinators, in parts of any size.

#![no_main]

// The coordinator is a program, which has nothing for others.
#[allow(dead_code)]
#[path = "../../../../coordinator/src/replication/letters.rs"]
mod letters;

use letters::Letter;
use reweave_proto::message::PeerPart;
use reweave_proto::parts::{Joiner, cut};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut joiner = Joiner::default();
    let size = bytes.first().map_or(1, |first| usize::from(*first) + 1);
    let pieces = bytes.get(1..).unwrap_or_default().chunks(size);
    let count = pieces.len();
    for (number, piece) in pieces.enumerate() {
        // What is left of a letter that was none must not be taken for the next one's beginning.
        let is_last = number + 1 == count || piece.first() == Some(&0xff);
        let part = PeerPart {
            is_last,
            bytes: piece.to_vec(),
        };
        let joined = joiner.join::<Letter>(&part);
        assert!(is_last || matches!(joined, Ok(None)));
        if let Ok(Some(letter)) = joined {
            passed_on(&letter);
        }
    }
});

/// What was understood is understood again, and whole with its last part.
fn passed_on(letter: &Letter) {
    let said = postcard::to_stdvec(letter).expect("it can be written");
    let mut joiner = Joiner::default();
    let joined = cut(&said, 7).map(|part| joiner.join::<Letter>(&part).expect("and read"));
    let again = joined.last().flatten().expect("it is whole");
    assert_eq!(postcard::to_stdvec(&again), Ok(said));
}
