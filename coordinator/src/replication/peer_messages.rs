//! Messages between coordinators over a session, in parts that fit into frames.

use std::mem;
use std::time::{SystemTime, UNIX_EPOCH};

use reweave_common::member::{Admission, Member};
use reweave_link::{Channel, LinkError, Session};
use reweave_proto::frame::WireError;
use reweave_proto::hello::Version;
use reweave_proto::message::PeerPart;
use reweave_proto::parts::{self, MAX_LETTER_BYTES, MAX_SNAPSHOT_LETTER_BYTES, PartAssembler};
use reweave_proto::since_version::came_with;
use reweave_replica::{Answer, FolderId, MAX_PROPOSAL_BYTES, MAX_STATE_BYTES, MemberId, Message};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

/// A message is sent in parts, each well below what a frame may hold.
const MAX_PART_BYTES: usize = 256 << 10;
/// The size of a message with an entry, without the proposal itself.
const MAX_ENVELOPE_BYTES: usize = 64 << 10;
/// The size of a message with a snapshot, without the state. It includes the members and the names of removed ones.
const MAX_SNAPSHOT_ENVELOPE_BYTES: usize = 1 << 20;

/// Peers can receive every entry that a leader appends, and every snapshot that begins its log.
const _: () = assert!(MAX_PROPOSAL_BYTES + MAX_ENVELOPE_BYTES <= MAX_LETTER_BYTES);
const _: () = assert!(MAX_STATE_BYTES + MAX_SNAPSHOT_ENVELOPE_BYTES <= MAX_SNAPSHOT_LETTER_BYTES);

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PeerMessage {
    Replica(Box<Message>),
    /// Comes before all that follows, and again now and then: which folder is behind the name, whether its disk has room
    /// for decisions, and what its clock shows.
    Here {
        folder: FolderId,
        disk_is_full: bool,
        time_of_day_us: u64,
    },
    Answer(Answer),
    /// A coordinator without a signer asks one that has one. Without a request: whether it has one.
    Certify(Option<Wish>),
    /// The chain that was requested, or nothing where it is not given.
    Certified(Option<String>),
    /// How long its signer is valid, if it has one; sent to peers of 1.1.
    Signs {
        left_s: Option<u64>,
    },
    /// The number that a coordinator with a log has by that; sent first, to peers of 1.2. A coordinator that was removed and
    /// still has its folder learns so, and its folder is not taken for that of a new member of its name.
    Number {
        id: MemberId,
    },
}

/// A request for a certificate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) request: Vec<u8>,
    pub(crate) member: Member,
    pub(crate) admission: Admission,
}

impl PeerMessage {
    pub(crate) fn here(folder: FolderId, disk_is_full: bool) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since.unwrap_or_default().as_micros();
        Self::Here {
            folder,
            disk_is_full,
            time_of_day_us: u64::try_from(micros).unwrap_or(u64::MAX),
        }
    }

    /// Whether it holds a snapshot.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self, Self::Replica(message) if message.is_large())
    }

    /// A snapshot has a channel of its own, where the receiver takes more. It is encoded beside the runtime: heartbeats
    /// would wait meanwhile.
    pub(crate) async fn send(self, session: &Session) -> Result<(), LinkError> {
        let is_large = self.is_large();
        let limit_bytes = max_bytes(is_large, session.version());
        let (channel, encoded) = if is_large {
            let encoding = spawn_blocking(move || parts::encode_within(limit_bytes, &self));
            let encoded = encoding.await.map_err(|_| LinkError::ChannelEnded)?;
            (Channel::Telemetry, encoded)
        } else {
            let encoded = parts::encode_within(limit_bytes, &self);
            (Channel::Commands, encoded)
        };
        let encoded = encoded.map_err(LinkError::Unsendable)?;
        for part in parts::cut(&encoded, MAX_PART_BYTES) {
            session.send(channel, &part).await?;
        }
        Ok(())
    }
}

/// A peer of 1.0 ends the session over a longer message, also over a snapshot.
fn max_bytes(is_large: bool, version: Version) -> usize {
    if is_large && version >= came_with(1) {
        MAX_SNAPSHOT_LETTER_BYTES
    } else {
        MAX_LETTER_BYTES
    }
}

/// Receives messages that come in parts over one channel of a session.
pub(crate) struct PeerMessageReceiver<'s> {
    session: &'s Session,
    channel: Channel,
    joiner: PartAssembler,
}

impl<'s> PeerMessageReceiver<'s> {
    pub(crate) fn new(session: &'s Session, channel: Channel) -> Self {
        Self {
            session,
            channel,
            joiner: PartAssembler::default(),
        }
    }

    /// Waits for the next one.
    pub(crate) async fn receive(&mut self) -> Result<PeerMessage, Unheard> {
        self.receive_within(|| MAX_LETTER_BYTES).await
    }

    /// The same, where the message may be as long as this says when a part comes.
    pub(crate) async fn receive_within(
        &mut self,
        limit_bytes: impl Fn() -> usize,
    ) -> Result<PeerMessage, Unheard> {
        loop {
            let part = self.session.receive(self.channel).await?;
            if let Some(peer_message) = self.join(limit_bytes(), part).await? {
                return Ok(peer_message);
            }
        }
    }

    /// Snapshots come over the telemetry channel, and are decoded beside the runtime: heartbeats would wait meanwhile. When
    /// that wait is given up, the snapshot is lost.
    async fn join(
        &mut self,
        limit_bytes: usize,
        part: PeerPart,
    ) -> Result<Option<PeerMessage>, Unheard> {
        if self.channel != Channel::Telemetry || !part.is_last {
            return Ok(self.joiner.join_within(limit_bytes, &part)?);
        }
        let mut joiner = mem::take(&mut self.joiner);
        let joining = spawn_blocking(move || joiner.join_within::<PeerMessage>(limit_bytes, &part));
        Ok(joining.await.map_err(|_| Unheard::Lost)??)
    }
}

#[derive(Debug)]
pub(crate) enum Unheard {
    Lost,
    NoMessage,
}

impl From<LinkError> for Unheard {
    fn from(_: LinkError) -> Self {
        Self::Lost
    }
}

impl From<WireError> for Unheard {
    fn from(_: WireError) -> Self {
        Self::NoMessage
    }
}

#[cfg(test)]
mod tests {
    use reweave_replica::{Entry, EntryContent, Kind, Proposal, RequestId};

    use super::*;

    #[test]
    fn longest_proposal_fits_peer_message() {
        let request = RequestId {
            client: u64::MAX,
            number: u64::MAX,
        };
        let payload = Vec::new();
        let proposal = postcard::to_stdvec(&Proposal { request, payload }).unwrap();
        let entry = Entry {
            term: u64::MAX,
            index: u64::MAX,
            content: EntryContent::Proposal(proposal),
        };
        let message = Message {
            log_term: u64::MAX,
            index: u64::MAX,
            commit: u64::MAX,
            commit_term: u64::MAX,
            entries: vec![entry],
            ..Message::new(Kind::Append, [MemberId(u64::MAX); 2], u64::MAX)
        };
        let encoded = parts::encode(&PeerMessage::Replica(Box::new(message))).unwrap();
        // The frame also carries the length of the payload twice.
        assert!(encoded.len() + 2 * size_of::<u64>() <= MAX_ENVELOPE_BYTES);
    }

    #[test]
    fn earlier_peers_get_shorter_snapshots() {
        let [earlier, later] = [0, 1].map(came_with);
        assert_eq!(max_bytes(true, earlier), MAX_LETTER_BYTES);
        assert_eq!(max_bytes(true, later), MAX_SNAPSHOT_LETTER_BYTES);
        assert_eq!(max_bytes(false, later), MAX_LETTER_BYTES);
    }
}
