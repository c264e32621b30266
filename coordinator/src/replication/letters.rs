//! What coordinators say to each other over a session, in parts that fit into frames.

use std::time::{SystemTime, UNIX_EPOCH};

use reweave_common::error::told;
use reweave_common::member::{Admission, Member};
use reweave_link::{Channel, LinkError, Session};
use reweave_proto::frame::WireError;
use reweave_proto::parts::{self, Joiner};
use reweave_replica::{Answer, FolderId, Message};
use serde::{Deserialize, Serialize};

/// A letter is sent in parts, each well below what a frame may hold.
const PART_BYTES: usize = 256 << 10;

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
            Self::Replica(message) if message.is_large() => Channel::Telemetry,
            _ => Channel::Commands,
        };
        let letter = match parts::encode(self) {
            Ok(letter) => letter,
            Err(error) => {
                tracing::error!("a letter is not sent: {}", told(&error));
                return Ok(());
            }
        };
        for part in parts::cut(&letter, PART_BYTES) {
            session.send(channel, &part).await?;
        }
        Ok(())
    }
}

/// Hears letters that come in parts over one channel of a session.
pub(crate) struct LetterReceiver<'s> {
    session: &'s Session,
    channel: Channel,
    joiner: Joiner,
}

impl<'s> LetterReceiver<'s> {
    pub(crate) fn new(session: &'s Session, channel: Channel) -> Self {
        Self {
            session,
            channel,
            joiner: Joiner::default(),
        }
    }

    /// Waits for the next one.
    pub(crate) async fn receive(&mut self) -> Result<Letter, Unheard> {
        loop {
            let part = self.session.receive(self.channel).await?;
            if let Some(letter) = self.joiner.join(&part)? {
                return Ok(letter);
            }
        }
    }
}

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

impl From<WireError> for Unheard {
    fn from(_: WireError) -> Self {
        Self::NoLetter
    }
}
