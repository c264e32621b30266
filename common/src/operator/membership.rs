//! Who may come in, who knocked in vain, and how the agents that came are fitted out.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::member::Member;

/// What the shell knows of an agent's session, and the agent of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub build: String,
    /// Of the protocol that is spoken with it.
    pub protocol: String,
    /// For how long its certificate is good.
    pub good_for: Duration,
    /// By how much its clock is ahead of the coordinator's; absent until it told.
    pub skew_us: Option<i64>,
}

/// A coordinator, as the one that answers sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorStatus {
    pub name: String,
    pub state: CoordinatorState,
    /// How often leadership has changed; absent where there is one coordinator.
    pub term: Option<u64>,
    /// Absent when it is not known.
    pub build: Option<String>,
    pub certificate_left_s: Option<u64>,
    /// What it signs members with; absent for one that cannot.
    pub signer_left_s: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoordinatorState {
    Leads,
    Follows,
    /// It stands for election.
    Stands,
    /// It has not been heard for too long.
    Silent,
    /// Whoever answers does not know.
    Unknown,
}

/// Somebody who was not let in, and why; for operators' eyes alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedPeer {
    pub from: String,
    pub why: String,
    pub times: u64,
    /// Since the last time.
    pub age_ms: u64,
}

/// A token that is out and may still be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenInvitation {
    pub member: Member,
    pub by: String,
    pub expires_in_ms: u64,
}
