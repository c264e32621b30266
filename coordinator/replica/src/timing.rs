//! How long replicas wait for each other, in ticks, and how much they hold.

/// All replicas of a cluster should have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// A leader is heard so often.
    pub heartbeat_ticks: usize,
    /// Without a leader for so long, and up to twice that, a replica stands for election.
    pub election_ticks: usize,
    /// A snapshot is made after so many entries, or so many bytes of them,
    pub entries_per_snapshot: u64,
    pub bytes_per_snapshot: usize,
    /// and so many entries before it are kept for peers that are a little behind.
    pub kept_entries: u64,
    /// A learner may vote when it is at most so many entries behind.
    pub promotion_lag: u64,
    /// A peer that was sent a snapshot is given up on after so long, and sent one again.
    pub snapshot_ticks: usize,
    /// Election timeouts are drawn from it: the same seed, the same run.
    pub seed: u64,
}

impl Default for Timing {
    /// For ticks of 10 ms.
    fn default() -> Self {
        Self {
            heartbeat_ticks: 5,
            election_ticks: 30,
            entries_per_snapshot: 4096,
            bytes_per_snapshot: 4 << 20,
            kept_entries: 256,
            promotion_lag: 64,
            snapshot_ticks: 500,
            seed: 0,
        }
    }
}

/// One message carries no more of the log, so that a peer's next heartbeat is never far behind.
const MESSAGE_BYTES: u64 = 256 << 10;
/// Proposals wait when so much of the log is not agreed on yet.
const UNCOMMITTED_BYTES: u64 = 16 << 20;
const MESSAGES_IN_FLIGHT: usize = 64;

impl Timing {
    pub(crate) fn raft(&self, id: u64, applied: u64) -> raft::Config {
        raft::Config {
            id,
            applied,
            election_tick: self.election_ticks,
            heartbeat_tick: self.heartbeat_ticks,
            max_size_per_msg: MESSAGE_BYTES,
            max_uncommitted_size: UNCOMMITTED_BYTES,
            max_committed_size_per_ready: UNCOMMITTED_BYTES,
            max_inflight_msgs: MESSAGES_IN_FLIGHT,
            check_quorum: true,
            pre_vote: true,
            ..raft::Config::default()
        }
    }

    /// Each replica draws another timeout in each term, so that no two of them collide for ever.
    pub(crate) fn election_timeout(&self, id: u64, term: u64) -> usize {
        let drawn = mixed(self.seed ^ mixed(id) ^ mixed(term.rotate_left(32)));
        self.election_ticks + (drawn % self.election_ticks as u64) as usize
    }
}

/// The finalizer of splitmix64.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
