//! Invited members, refused peers, and the capabilities of admitted agents.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::member::Member;
use crate::time_span::TimeSpan;

/// What the shell knows of an agent's session, and the agent of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub build: String,
    /// Of the protocol that is spoken with it.
    pub protocol: String,
    /// For how long its certificate is good.
    pub good_for: TimeSpan,
    /// How far its clock is ahead of the coordinator's; absent until it is reported.
    pub skew_us: Option<i64>,
}

/// A coordinator, as the one that answers sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CoordinatorStatus {
    pub number: u64,
    pub name: String,
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub address: SocketAddr,
    pub state: CoordinatorState,
    /// Whether it counts when something is decided; one that only learns does not.
    pub votes: bool,
    /// How often leadership has changed, as it last said; absent when it has not.
    pub term: Option<u64>,
    /// Since it was last heard; absent for one that never was, and for the one that answers.
    pub heard_ms: Option<u64>,
    /// How many entries of the log it has still to get, as far as the leader knows.
    pub behind: Option<u64>,
    /// Absent when it is not known.
    pub build: Option<String>,
    pub protocol: Option<String>,
    pub certificate_left_s: Option<u64>,
    /// What it signs members with; absent for one that cannot, and for others than the one that
    /// answers.
    pub signer_left_s: Option<u64>,
    /// By how much its clock is ahead of the one that answers.
    pub clock_skew_ms: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CoordinatorState {
    Leads,
    Follows,
    /// It gets the log, and votes when it has caught up.
    Learns,
    /// It has not been heard for too long.
    Silent,
    /// It has not been heard at all.
    Unseen,
}

/// A coordinator's own state: what it knows without asking another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorStanding {
    /// Of the one that answers.
    pub number: u64,
    /// Where its log ends, and up to where that is agreed on as far as it knows.
    pub last: u64,
    pub committed: u64,
    /// As it sees them; itself is among them.
    pub coordinators: Vec<CoordinatorStatus>,
}

/// How the coordinators should change. Members are called by name or number.
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
    /// In its place another learns, and votes in its place when it has caught up. Without a name or
    /// an address it has those of the old one.
    Replace {
        who: String,
        name: Option<String>,
        address: Option<SocketAddr>,
    },
}

/// A refused peer, and why; for operators only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RefusedPeer {
    pub from: String,
    pub why: String,
    pub times: u64,
    /// Since the last time.
    pub age_ms: u64,
}

/// A token that is out and may still be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpenInvitation {
    pub member: Member,
    pub by: String,
    pub expires_in_ms: u64,
}
