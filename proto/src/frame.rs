//! Messages as frames: four bytes of length, big-endian, and a message in postcard.
//!
//! A peer is not trusted. Its length is checked before any allocation, and buffers grow with the received bytes, not
//! with the claimed length.

use std::mem;

use bytes::{Buf, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// No unsolicited message is longer.
pub const MAX_FRAME_BYTES: usize = 1 << 20;

/// Nor is an answer longer than this: the state of a whole cluster.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;

const HEADER_BYTES: usize = 4;

/// Why bytes are no valid message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WireError {
    #[error("a frame of {length_bytes} bytes, and the limit is {limit_bytes}")]
    Oversized {
        length_bytes: usize,
        limit_bytes: usize,
    },
    #[error("the stream ended inside a frame, {held_bytes} bytes after its beginning")]
    Truncated { held_bytes: usize },
    #[error("the frame holds a message unknown to this version")]
    Garbage(#[source] postcard::Error),
    #[error("the frame holds {extra_bytes} bytes after its message")]
    Trailing { extra_bytes: usize },
    #[error("the message cannot be written")]
    Unwritable(#[source] postcard::Error),
}

/// One message as one frame, ready to be sent.
pub fn encode<T: Serialize>(message: &T) -> Result<Bytes, WireError> {
    encode_within(MAX_FRAME_BYTES, message)
}

/// The same for a receiver with a higher limit.
pub fn encode_within<T: Serialize>(limit_bytes: usize, message: &T) -> Result<Bytes, WireError> {
    let frame = vec![0; HEADER_BYTES];
    let mut frame = postcard::to_extend(message, frame).map_err(WireError::Unwritable)?;
    let length_bytes = frame.len() - HEADER_BYTES;
    let header = checked_header(length_bytes, limit_bytes)?;
    frame[..HEADER_BYTES].copy_from_slice(&header);
    Ok(frame.into())
}

/// One message without a frame, for where its end is plain.
pub fn encode_alone<T: Serialize>(message: &T) -> Result<Bytes, WireError> {
    let bytes = postcard::to_stdvec(message).map_err(WireError::Unwritable)?;
    Ok(bytes.into())
}

fn checked_header(length_bytes: usize, limit_bytes: usize) -> Result<[u8; 4], WireError> {
    let oversized = WireError::Oversized {
        length_bytes,
        limit_bytes,
    };
    let length = u32::try_from(length_bytes).map_err(|_| oversized.clone())?;
    (length_bytes <= limit_bytes)
        .then_some(length.to_be_bytes())
        .ok_or(oversized)
}

/// The message in a frame, which must hold nothing besides.
pub fn decode<T: DeserializeOwned>(frame: &[u8]) -> Result<T, WireError> {
    match postcard::take_from_bytes(frame).map_err(WireError::Garbage)? {
        (message, []) => Ok(message),
        (_, rest) => Err(WireError::Trailing {
            extra_bytes: rest.len(),
        }),
    }
}

/// Finds the frames in a stream of bytes that arrive in pieces of any size.
///
/// Take out all frames before handing in the next piece, and the decoder never holds more than one
/// frame and one piece, and between two frames nothing: most of thousands of peers are silent.
#[derive(Debug)]
pub struct FrameDecoder {
    buffer: BytesMut,
    limit_bytes: usize,
}

impl Default for FrameDecoder {
    fn default() -> Self {
        Self::with_limit(MAX_FRAME_BYTES)
    }
}

impl FrameDecoder {
    pub fn with_limit(limit_bytes: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            limit_bytes,
        }
    }

    /// Allows longer frames from the next one on: an unauthenticated peer gets a lower limit.
    pub fn raise_limit(&mut self, limit_bytes: usize) {
        self.limit_bytes = self.limit_bytes.max(limit_bytes);
    }

    /// After a frame that is too long there is no finding the next one, so nothing more is kept.
    pub fn handle_bytes(&mut self, piece: &[u8]) {
        if self.announced().is_ok() {
            self.buffer.extend_from_slice(piece);
        }
    }

    /// The stream has ended: was that between two frames?
    pub fn handle_end(&self) -> Result<(), WireError> {
        self.announced()?;
        match self.buffer.len() {
            0 => Ok(()),
            held_bytes => Err(WireError::Truncated { held_bytes }),
        }
    }

    /// The next whole frame without its header.
    pub fn poll_frame(&mut self) -> Result<Option<Bytes>, WireError> {
        let Some(length) = self.announced()? else {
            return Ok(None);
        };
        if self.buffer.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(HEADER_BYTES);
        let frame = if self.buffer.len() == length {
            mem::take(&mut self.buffer)
        } else {
            self.buffer.split_to(length)
        };
        Ok(Some(frame.freeze()))
    }

    /// The length of the frame at the front, once its header is here.
    fn announced(&self) -> Result<Option<usize>, WireError> {
        let Some(header) = self.buffer.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length_bytes = u32::from_be_bytes(*header) as usize;
        checked_header(length_bytes, self.limit_bytes).map(|_| Some(length_bytes))
    }
}
