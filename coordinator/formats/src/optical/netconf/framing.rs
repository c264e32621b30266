//! Where messages of NETCONF end (RFC 6242): by a mark in the hello, and by chunks of stated length after
//! it, where both sides can.

use thiserror::Error;

use super::super::MAX_ANSWER_BYTES;

const END_OF_MESSAGE: &[u8] = b"]]>]]>";
/// Of a chunk's head, its lengths ten digits included.
const MAX_CHUNK_HEADER_BYTES: usize = 13;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FramingError {
    #[error("a message of more than {MAX_ANSWER_BYTES} bytes")]
    TooLong,
    #[error("{0:?} where a chunk begins")]
    NoChunk(String),
    #[error("a message that is not UTF-8")]
    NotText,
}

/// As it is sent.
pub fn framed(message: &str, chunks: bool) -> String {
    if chunks {
        format!("\n#{}\n{message}\n##\n", message.len())
    } else {
        format!("{message}]]>]]>")
    }
}

/// Takes messages out of what comes in, in pieces of any size.
#[derive(Debug, Default)]
pub struct Deframer {
    chunks: bool,
    /// Not looked at yet.
    received: Vec<u8>,
    /// The chunks of the message under way.
    message: Vec<u8>,
}

/// What a chunk's head says.
enum Head {
    Chunk { head: usize, length: usize },
    End { head: usize },
}

impl Deframer {
    /// What follows comes in chunks.
    pub fn use_chunks(&mut self) {
        self.chunks = true;
    }

    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next message, if all of it is there.
    pub fn poll_message(&mut self) -> Result<Option<String>, FramingError> {
        let message = if self.chunks {
            self.poll_chunks()?
        } else {
            self.poll_marked()?
        };
        let text = message.map(String::from_utf8).transpose();
        text.map_err(|_| FramingError::NotText)
    }

    fn poll_marked(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        let found = self
            .received
            .windows(END_OF_MESSAGE.len())
            .position(|it| it == END_OF_MESSAGE);
        let Some(end) = found else {
            return self.bounded(self.received.len()).map(|()| None);
        };
        self.bounded(end)?;
        let rest = self.received.split_off(end + END_OF_MESSAGE.len());
        let mut message = std::mem::replace(&mut self.received, rest);
        message.truncate(end);
        Ok(Some(message))
    }

    fn poll_chunks(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        while let Some(head) = self.head()? {
            match head {
                Head::End { head } => {
                    self.received.drain(..head);
                    return Ok(Some(std::mem::take(&mut self.message)));
                }
                Head::Chunk { head, length } => {
                    self.bounded(self.message.len().saturating_add(length))?;
                    if self.received.len() < head + length {
                        break;
                    }
                    let chunk = self.received.drain(..head + length).skip(head);
                    self.message.extend(chunk);
                }
            }
        }
        Ok(None)
    }

    /// The head that `received` begins with: `\n#LENGTH\n`, or `\n##\n` after the last chunk.
    fn head(&self) -> Result<Option<Head>, FramingError> {
        let start = &self.received[..self.received.len().min(MAX_CHUNK_HEADER_BYTES)];
        let line_end = start.iter().skip(1).position(|byte| *byte == b'\n');
        let Some(line_end) = line_end.map(|at| at + 1) else {
            let may_become_one = start.len() < MAX_CHUNK_HEADER_BYTES
                && b"\n#".starts_with(&start[..start.len().min(2)]);
            return if may_become_one {
                Ok(None)
            } else {
                Err(no_chunk(start))
            };
        };
        let head = line_end + 1;
        match start[..line_end].strip_prefix(b"\n#") {
            Some(b"#") => Ok(Some(Head::End { head })),
            Some(digits) => {
                let length = length(digits).ok_or_else(|| no_chunk(start))?;
                Ok(Some(Head::Chunk { head, length }))
            }
            None => Err(no_chunk(start)),
        }
    }

    fn bounded(&self, length: usize) -> Result<(), FramingError> {
        if length > MAX_ANSWER_BYTES {
            return Err(FramingError::TooLong);
        }
        Ok(())
    }
}

/// Without signs and leading zeros, and not nothing.
fn length(digits: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(digits).ok()?;
    let plain = text.starts_with(|c: char| ('1'..='9').contains(&c));
    text.parse().ok().filter(|_| plain)
}

fn no_chunk(start: &[u8]) -> FramingError {
    FramingError::NoChunk(String::from_utf8_lossy(start).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn deframer(chunks: bool) -> Deframer {
        let mut deframer = Deframer::default();
        if chunks {
            deframer.use_chunks();
        }
        deframer
    }

    /// What comes out when bytes come in pieces of these sizes.
    fn received(bytes: &[u8], pieces: usize, chunks: bool) -> Result<Vec<String>, FramingError> {
        let (mut deframer, mut messages) = (deframer(chunks), vec![]);
        for piece in bytes.chunks(pieces) {
            deframer.handle_bytes(piece);
            while let Some(message) = deframer.poll_message()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    proptest! {
        #[test]
        fn netconf_frames_roundtrip_in_pieces(
            messages in prop::collection::vec("[a-z\n#\\]>é]{1,40}", 1..4),
            pieces in 1_usize..20,
            chunks: bool,
        ) {
            prop_assume!(chunks || messages.iter().all(|it| !it.contains(']')));
            let sent: String = messages.iter().map(|it| framed(it, chunks)).collect();
            prop_assert_eq!(received(sent.as_bytes(), pieces, chunks), Ok(messages));
        }

        #[test]
        fn arbitrary_netconf_bytes_are_safe(bytes: Vec<u8>, pieces in 1_usize..20, chunks: bool) {
            let _ = received(&bytes, pieces, chunks);
        }
    }

    #[test]
    fn message_may_span_chunks() {
        let text = "\n#4\n<a/>\n#5\n<b/>\n\n##\n";
        assert_eq!(received(text.as_bytes(), 3, true).unwrap(), ["<a/><b/>\n"]);
    }

    #[test]
    fn invalid_or_oversized_chunk_is_refused() {
        for wrong in [
            "<hello",
            "\n#-1\n",
            "\n#0\n",
            "\n#x\n",
            "\n#12345678901234",
            "#4\n",
        ] {
            let refused = received(wrong.as_bytes(), 100, true);
            assert!(
                matches!(refused, Err(FramingError::NoChunk(_))),
                "{wrong:?}"
            );
        }
        let huge = received(b"\n#4294967295\n", 100, true);
        assert_eq!(huge, Err(FramingError::TooLong));
        let endless = vec![b'x'; MAX_ANSWER_BYTES + 1];
        assert_eq!(received(&endless, 65536, false), Err(FramingError::TooLong));
    }
}
