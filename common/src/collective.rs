//! Collectives, as a communication library reports them. The kernel sees nothing of them if a NIC bypasses it.

use serde::{Deserialize, Serialize};

use crate::moment::Moment;
use crate::time_span::TimeSpan;
use crate::units::Bytes;

/// Socket at which an agent receives the reports of jobs.
pub const COLLECTIVES_SOCKET: &str = "/run/reweave/collectives";
/// Environment variable with another path for the socket.
pub const COLLECTIVES_VARIABLE: &str = "REWEAVE_COLLECTIVES";
/// Maximum size of a report.
pub const MAX_WORD_BYTES: usize = 16 << 10;
/// Maximum number of peers in a report.
pub const MAX_PEERS_PER_WORD: usize = 256;
pub const MAX_WORKS_PER_WORD: usize = 32;
/// Maximum length of a communicator's name.
pub const MAX_COMMUNICATOR_NAME_BYTES: usize = 64;

/// A report about one rank of one communicator, for a span of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankWord {
    pub rank: Rank,
    /// Start, by the monotonic clock of the machine.
    pub from: Moment,
    pub to: Moment,
    /// Number of events that were dropped because there were too many at once.
    pub missed: u64,
    pub works: Vec<Works>,
    pub peers: Vec<RankPeer>,
}

/// A rank of a communicator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rank {
    /// Hash of the communicator, the same on all its ranks.
    pub communicator: u64,
    #[serde(deserialize_with = "crate::printable::text")]
    pub name: String,
    pub nodes: u32,
    pub ranks: u32,
    pub rank: u32,
}

/// Collectives, or messages to one rank, with equal parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Works {
    /// Name of the operation in the library.
    #[serde(deserialize_with = "crate::printable::text")]
    pub kind: String,
    #[serde(deserialize_with = "crate::printable::text")]
    pub algorithm: String,
    #[serde(deserialize_with = "crate::printable::text")]
    pub protocol: String,
    pub count: u64,
    /// Bytes that the program requested, not the bytes on the wire.
    pub bytes: Bytes,
    /// Total duration by the GPU's clock, over those with a known time. The last rank to arrive waits least.
    #[serde(rename = "took_ns", with = "crate::nanos")]
    pub took: TimeSpan,
    pub timed: u64,
}

/// Network traffic to and from another rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPeer {
    pub rank: u32,
    pub sent: Bytes,
    pub received: Bytes,
    /// Total time of transfers on all channels.
    #[serde(rename = "sending_ns", with = "crate::nanos")]
    pub sending: TimeSpan,
    #[serde(rename = "receiving_ns", with = "crate::nanos")]
    pub receiving: TimeSpan,
}

/// An agent's report about a rank over the last seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankReading {
    pub rank: Rank,
    #[serde(rename = "over_ns", with = "crate::nanos")]
    pub over: TimeSpan,
    pub missed: u64,
    pub works: Vec<Works>,
    pub peers: Vec<RankPeer>,
}

impl Rank {
    /// Whether the rank is below the number of ranks.
    pub fn is_possible(&self) -> bool {
        self.rank < self.ranks && self.name.len() <= MAX_COMMUNICATOR_NAME_BYTES
    }
}

impl Works {
    fn is_short(&self) -> bool {
        let names = [&self.kind, &self.algorithm, &self.protocol];
        names
            .iter()
            .all(|name| name.len() <= MAX_COMMUNICATOR_NAME_BYTES)
    }
}

impl RankWord {
    /// Whether the report keeps the bounds of a report.
    pub fn is_bounded(&self) -> bool {
        self.from <= self.to && are_bounded(&self.rank, &self.works, &self.peers)
    }
}

impl RankReading {
    pub fn is_bounded(&self) -> bool {
        are_bounded(&self.rank, &self.works, &self.peers)
    }
}

fn are_bounded(rank: &Rank, works: &[Works], peers: &[RankPeer]) -> bool {
    rank.is_possible()
        && works.len() <= MAX_WORKS_PER_WORD
        && works.iter().all(Works::is_short)
        && peers.len() <= MAX_PEERS_PER_WORD
        && peers.iter().all(|peer| peer.rank < rank.ranks)
}

/// Adds the traffic with a peer to the entry of the same rank.
pub fn add_peer(peers: &mut Vec<RankPeer>, peer: RankPeer) {
    match peers.binary_search_by_key(&peer.rank, |it| it.rank) {
        Ok(place) => peers[place].add(&peer),
        Err(place) => peers.insert(place, peer),
    }
}

/// Adds collectives to the entry with equal parameters.
pub fn add_works(all: &mut Vec<Works>, works: Works) {
    match all.iter_mut().find(|it| it.is_like(&works)) {
        Some(same) => same.add(&works),
        None => all.push(works),
    }
}

impl RankPeer {
    fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        self.sending = self.sending.saturating_add(other.sending);
        self.receiving = self.receiving.saturating_add(other.receiving);
    }
}

impl Works {
    fn is_like(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.algorithm == other.algorithm
            && self.protocol == other.protocol
    }

    fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.took = self.took.saturating_add(other.took);
        self.timed = self.timed.saturating_add(other.timed);
    }
}
