//! Messages between coordinators, which may be longer than a frame: split into parts, and reassembled.

use std::mem;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{self, WireError};
use crate::message::PeerPart;

/// No message is longer, but one with a snapshot.
pub const MAX_LETTER_BYTES: usize = 64 << 20;

/// Nor is one with a snapshot, which holds the state after all decisions. Both ends have the message in memory several
/// times, and heartbeats wait while a replica writes or reads it.
pub const MAX_SNAPSHOT_LETTER_BYTES: usize = 256 << 20;

/// The bytes of a message. The receiver would drop a longer one, again and again.
pub fn encode<T: Serialize>(letter: &T) -> Result<Bytes, WireError> {
    encode_within(MAX_LETTER_BYTES, letter)
}

/// The same for a receiver with a higher limit.
pub fn encode_within<T: Serialize>(limit_bytes: usize, letter: &T) -> Result<Bytes, WireError> {
    let bytes = frame::encode_alone(letter)?;
    check(bytes.len(), limit_bytes)?;
    Ok(bytes)
}

/// In parts of this length, which is not 0, and what is left.
pub fn cut(letter: &[u8], part_bytes: usize) -> impl Iterator<Item = PeerPart> {
    let parts = letter.chunks(part_bytes);
    let count = parts.len();
    parts.enumerate().map(move |(number, bytes)| PeerPart {
        is_last: number + 1 == count,
        bytes: bytes.to_vec(),
    })
}

/// Reassembles messages from the parts over one channel of one connection: completely, or not at all.
#[derive(Debug, Default)]
pub struct PartAssembler {
    bytes: Vec<u8>,
}

impl PartAssembler {
    /// The message that is complete with this part. After an error, this connection yields no more messages.
    pub fn join<T: DeserializeOwned>(&mut self, part: &PeerPart) -> Result<Option<T>, WireError> {
        self.join_within(MAX_LETTER_BYTES, part)
    }

    /// The same, where the message may be as long as this by now.
    pub fn join_within<T: DeserializeOwned>(
        &mut self,
        limit_bytes: usize,
        part: &PeerPart,
    ) -> Result<Option<T>, WireError> {
        check(self.bytes.len() + part.bytes.len(), limit_bytes)?;
        self.bytes.extend_from_slice(&part.bytes);
        if !part.is_last {
            return Ok(None);
        }
        let bytes = mem::take(&mut self.bytes);
        frame::decode(&bytes).map(Some)
    }
}

fn check(length_bytes: usize, limit_bytes: usize) -> Result<(), WireError> {
    if length_bytes > limit_bytes {
        Err(WireError::Oversized {
            length_bytes,
            limit_bytes,
        })
    } else {
        Ok(())
    }
}
