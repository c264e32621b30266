//! Timeouts of replicas, in ticks, and limits of their buffers.

use std::collections::BTreeSet;

use crate::wire::MemberId;

/// All replicas of a cluster should have the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// A leader is heard this often.
    pub heartbeat_ticks: usize,
    /// Without a leader for this long, and up to twice that, a replica stands for election.
    pub election_ticks: usize,
    /// A snapshot is made after this many entries, or this many bytes of them,
    pub entries_per_snapshot: u64,
    pub bytes_per_snapshot: usize,
    /// and this many entries before it are kept for peers that are a little behind.
    pub kept_entries: u64,
    /// A learner may vote when it is at most this many entries behind.
    pub promotion_lag: u64,
    /// A peer that was sent a snapshot is given up on after this long, and sent one again.
    pub snapshot_ticks: usize,
    /// A shorter log that could not be written is asked for again after this long: each attempt writes as much as it
    /// holds.
    pub compaction_retry_ticks: usize,
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
            compaction_retry_ticks: 3000,
            seed: 0,
        }
    }
}

/// One message carries no more of the log, so that a peer's next heartbeat is never far behind.
const MAX_MESSAGE_BYTES: u64 = 256 << 10;
/// Proposals wait when this much of the log is not agreed on yet.
const MAX_UNCOMMITTED_BYTES: u64 = 16 << 20;
const MAX_INFLIGHT_MESSAGES: usize = 64;

impl Timing {
    pub(crate) fn raft(&self, id: u64, applied: u64) -> raft::Config {
        raft::Config {
            id,
            applied,
            election_tick: self.election_ticks,
            heartbeat_tick: self.heartbeat_ticks,
            max_size_per_msg: MAX_MESSAGE_BYTES,
            max_uncommitted_size: MAX_UNCOMMITTED_BYTES,
            max_committed_size_per_ready: MAX_UNCOMMITTED_BYTES,
            max_inflight_msgs: MAX_INFLIGHT_MESSAGES,
            check_quorum: true,
            pre_vote: true,
            ..raft::Config::default()
        }
    }

    /// Each replica has a turn of its own, well apart from the others', so that hardly ever two
    /// stand for election at once; and another in each term, so that no two collide for ever.
    ///
    /// The first turn begins a little later than the timeout: until then others take the leader for
    /// alive, and do not vote.
    pub(crate) fn election_timeout(&self, id: u64, term: u64, turn: Turn) -> usize {
        let drawn = mixed(self.seed ^ mixed(id) ^ mixed(term.rotate_left(32))) as usize;
        let long = self.election_ticks;
        let begins = long * turn.place / turn.of;
        let (late, wide) = (long / turn.of / 5, long / turn.of * 2 / 5);
        long + (begins + late + drawn % wide.max(1)).min(long - 1)
    }
}

/// Staggers elections among the replicas that may be candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    place: usize,
    of: usize,
}

impl Turn {
    /// The last leader, and a replica without a vote, come after all others.
    pub(crate) fn of(id: MemberId, term: u64, led: MemberId, voters: &[MemberId]) -> Self {
        let others: BTreeSet<_> = voters.iter().filter(|voter| **voter != led).collect();
        let count = others.len();
        let rank = others.iter().position(|other| **other == id);
        let rotated = |rank: usize| (rank + (mixed(term) % count as u64) as usize) % count;
        Self {
            place: rank.map_or(count, rotated),
            of: count + 1,
        }
    }
}

/// The finalizer of splitmix64.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeouts(term: u64, led: u64) -> Vec<usize> {
        let voters = [3, 1, 2].map(MemberId);
        let seeds = voters.map(|id| (id, 7 * id.0));
        let timeouts = seeds.map(|(id, seed)| {
            let timing = Timing {
                seed,
                ..Timing::default()
            };
            timing.election_timeout(id.0, term, Turn::of(id, term, MemberId(led), &voters))
        });
        timeouts.into()
    }

    #[test]
    fn election_timeouts_are_distinct_and_short() {
        for (term, led) in (0..200).flat_map(|term| (0..4).map(move |led| (term, led))) {
            let mut all = timeouts(term, led);
            all.sort_unstable();
            let long = Timing::default().election_ticks;
            assert!(all[0] > long && all[2] < 2 * long, "{all:?}");
            assert!(all.windows(2).all(|two| two[1] - two[0] >= 4), "{all:?}");
            assert!(all[0] < long + long / 4, "{all:?}");
        }
    }

    /// Voters are 3, 1 and 2, in this order.
    #[test]
    fn last_leader_times_out_last() {
        let first = |term| {
            let all = timeouts(term, 2);
            assert!(all[2] > all[0].max(all[1]), "{all:?}");
            all[0] < all[1]
        };
        let firsts = (0..100).filter(|term| first(*term)).count();
        assert!((25..=75).contains(&firsts), "{firsts}");
    }
}
