//! What coordinators say to each other, in parts that fit into frames.

use std::time::{SystemTime, UNIX_EPOCH};

use reweave_common::member::{Admission, Member};
use reweave_link::{Channel, LinkError, Session};
use reweave_proto::message::PeerPart;
use reweave_replica::decode_exact;
use reweave_replica::{Answer, FolderId, Kind, Message};
use serde::{Deserialize, Serialize};

/// A letter is sent in parts, each well below what a frame may hold.
const PART_BYTES: usize = 256 << 10;
/// No snapshot is larger.
const MOST_BYTES: usize = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Letter {
    Replica(Box<Message>),
    /// Comes first, and again now and then: which folder is behind the name, whether its disk has room
    /// for decisions, and what its clock shows.
    Here {
        folder: FolderId,
        disk_is_full: bool,
        time_of_day_us: u64,
    },
    Answer(Answer),
    /// Whoever has no signer asks one who has. Without a wish: whether there is one.
    Certify(Option<Wish>),
    /// The chain that was wished for, or nothing where it is not given.
    Certified(Option<String>),
    /// For how long its signer is good, if it has one; told to whoever speaks 1.1.
    Signs {
        left_s: Option<u64>,
    },
}

/// A certificate for whoever made the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) request: Vec<u8>,
    pub(crate) member: Member,
    pub(crate) admission: Admission,
}

impl Letter {
    pub(crate) fn here(folder: FolderId, disk_is_full: bool) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since.unwrap_or_default().as_micros();
        Self::Here {
            folder,
            disk_is_full,
            time_of_day_us: u64::try_from(micros).unwrap_or(u64::MAX),
        }
    }

    /// What is large goes beside what is urgent.
    pub(crate) async fn send(&self, session: &Session) -> Result<(), LinkError> {
        let channel = match self {
            Self::Replica(message) if message.kind == Kind::Snapshot => Channel::Telemetry,
            _ => Channel::Commands,
        };
        // Writing to memory does not fail.
        let bytes = postcard::to_stdvec(self).unwrap_or_default();
        if bytes.len() > MOST_BYTES {
            // It would be thrown away at the other end, again and again.
            let length = bytes.len();
            tracing::error!(
                "a letter of {length} bytes is not sent: no more than {MOST_BYTES} are taken"
            );
            return Ok(());
        }
        let parts = bytes.chunks(PART_BYTES);
        let count = parts.len();
        for (number, part) in parts.enumerate() {
            let part = PeerPart {
                is_last: number + 1 == count,
                bytes: part.to_vec(),
            };
            session.send(channel, &part).await?;
        }
        Ok(())
    }
}

/// Puts letters together again.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    bytes: Vec<u8>,
}

impl Joiner {
    /// The letter that is complete with this part. An error when it is none.
    pub(crate) fn join(&mut self, part: &PeerPart) -> Result<Option<Letter>, BadLetter> {
        if self.bytes.len() + part.bytes.len() > MOST_BYTES {
            return Err(BadLetter);
        }
        self.bytes.extend_from_slice(&part.bytes);
        if !part.is_last {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.bytes);
        decode_exact(&bytes).map(Some).map_err(|_| BadLetter)
    }

    /// The next one that comes in parts.
    pub(crate) async fn receive(
        &mut self,
        session: &Session,
        channel: Channel,
    ) -> Result<Letter, Unheard> {
        loop {
            let part = session.receive(channel).await?;
            if let Some(letter) = self.join(&part)? {
                return Ok(letter);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct BadLetter;

#[derive(Debug)]
pub(crate) enum Unheard {
    Lost,
    NoLetter,
}

impl From<LinkError> for Unheard {
    fn from(_: LinkError) -> Self {
        Self::Lost
    }
}

impl From<BadLetter> for Unheard {
    fn from(_: BadLetter) -> Self {
        Self::NoLetter
    }
}
