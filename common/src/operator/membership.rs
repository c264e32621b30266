//! Members: invited ones, refused peers, and capabilities of admitted agents.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::member::Member;
use crate::time_span::TimeSpan;

/// Session of an agent, with what the agent reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub build: String,
    /// Version of the protocol in use.
    pub protocol: String,
    /// Remaining validity of the certificate.
    pub good_for: TimeSpan,
    /// Time by which its clock is ahead of the coordinator's; absent until it is reported.
    pub skew_us: Option<i64>,
}

/// A coordinator, as seen by the one that answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CoordinatorStatus {
    pub number: u64,
    pub name: String,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub address: SocketAddr,
    pub state: CoordinatorState,
    /// Whether it is a voter; a learner is not.
    pub votes: bool,
    /// Its last reported Raft term; absent if none was reported.
    pub term: Option<u64>,
    /// Time since it was last heard; absent if it never was, and for the coordinator that answers.
    pub heard_ms: Option<u64>,
    /// Number of log entries that it still lacks, as far as the leader knows; absent until it has answered this leader.
    pub behind: Option<u64>,
    /// Absent if it is unknown.
    pub build: Option<String>,
    pub protocol: Option<String>,
    pub certificate_left_s: Option<u64>,
    /// Remaining validity of its signer; absent for a coordinator without one, and for all but the one that answers.
    pub signer_left_s: Option<u64>,
    /// Time by which its clock is ahead of that of the coordinator that answers.
    pub clock_skew_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CoordinatorState {
    Leads,
    Follows,
    /// Receives the log, and becomes a voter when it has caught up.
    Learns,
    /// Not heard for too long.
    Silent,
    /// Never heard.
    Unseen,
}

/// A coordinator's own state, which it knows without asking others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorStanding {
    /// Number of the coordinator that answers.
    pub number: u64,
    /// Index of its last log entry, and of the last committed entry that it knows.
    pub last: u64,
    pub committed: u64,
    /// All coordinators as it sees them, itself included.
    pub coordinators: Vec<CoordinatorStatus>,
}

/// Change of the coordinators. Members are named by name or number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberOrder {
    Add {
        name: String,
        address: SocketAddr,
    },
    Remove {
        who: String,
    },
    /// Replaces a coordinator by a learner, which takes over the vote when it has caught up. Without a name or an
    /// address it keeps those of the old one.
    Replace {
        who: String,
        name: Option<String>,
        address: Option<SocketAddr>,
    },
}

/// A refused peer with the reason; only for operators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RefusedPeer {
    pub from: String,
    pub why: String,
    pub times: u64,
    /// Time since the last attempt.
    pub age_ms: u64,
}

/// A token that can still be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenInvitation {
    pub member: Member,
    pub by: String,
    pub expires_in_ms: u64,
}
