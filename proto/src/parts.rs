//! Messages between coordinators, which may be longer than a frame: split into parts, and reassembled.

use std::mem;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frame::{self, WireError};
use crate::message::PeerPart;

/// No message is longer: no snapshot is larger.
pub const MAX_LETTER_BYTES: usize = 64 << 20;

/// The bytes of a message. The receiver would drop a longer one, again and again.
pub fn encode<T: Serialize>(letter: &T) -> Result<Bytes, WireError> {
    let bytes = frame::encode_alone(letter)?;
    check(bytes.len())?;
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
        check(self.bytes.len() + part.bytes.len())?;
        self.bytes.extend_from_slice(&part.bytes);
        if !part.is_last {
            return Ok(None);
        }
        let bytes = mem::take(&mut self.bytes);
        frame::decode(&bytes).map(Some)
    }
}

fn check(length_bytes: usize) -> Result<(), WireError> {
    match length_bytes > MAX_LETTER_BYTES {
        true => Err(WireError::Oversized {
            length_bytes,
            limit_bytes: MAX_LETTER_BYTES,
        }),
        false => Ok(()),
    }
}
