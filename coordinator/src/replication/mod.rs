//! The replica of this coordinator, on a thread of its own: it must answer its peers in time, however busy the core
//! is, and waits only for the disk.

mod cluster;
mod disk;
mod engine;
mod introduction;
mod members;
mod peer_messages;
mod peer_status;
mod peers;
mod raft_metrics;
mod store;

use thiserror::Error;

use reweave_replica::{LogError, LostLog, MemberId, ReadId, Standing, StartError};

pub(crate) use cluster::{Cluster, Directory};
pub(crate) use engine::{Engine, Outlets, Replication, Task};
pub(crate) use introduction::{Introduction, IntroductionError};
pub(crate) use peer_messages::{PeerMessage, PeerMessageReceiver, Unheard, Wish};
pub(crate) use peer_status::{Condition, PeerStatus, SILENCE_TIMEOUT};
pub(crate) use peers::{Own, Posts, keep_open};
pub(crate) use raft_metrics::{RaftCounts, WRITE_BUCKETS_S};
pub(crate) use store::{Opened, expect_none, look, open};

/// Lies beside the log of a coordinator that was removed: its number never returns.
pub(crate) const REMOVED_FILE: &str = "removed";

/// What the event loop has to know of the replica.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Agreed on: the next command, as it was proposed.
    Applied {
        index: u64,
        payload: Vec<u8>,
    },
    /// The state that all commands so far led to, in place of the one there was.
    Restored {
        state: Vec<u8>,
    },
    /// A snapshot of the state as it is now is wanted.
    TakeSnapshot {
        index: u64,
    },
    ReadReady(ReadId),
    ReadLost(ReadId),
    Stands(Standing),
    /// Whether there is no room for decisions.
    Disk {
        is_full: bool,
    },
    Failed(ReplicationError),
}

#[derive(Debug, Error)]
pub(crate) enum ReplicationError {
    #[error("cannot write the log; exiting to stay consistent with it")]
    Log(#[from] LogError),
    #[error(transparent)]
    Lost(#[from] LostLog),
    #[error("cannot start from the log")]
    Start(#[source] StartError),
    #[error("entry {index} was written by a later version of this program: upgrade this program")]
    Unreadable { index: u64 },
    #[error(
        "this coordinator was removed from the cluster: member {id} no longer exists. To bring it back, run `reweave \
         cluster member add NAME ADDRESS:PORT` and start it with an empty data folder"
    )]
    TakenOut { id: MemberId },
    #[error("the log thread has died")]
    Died,
}
