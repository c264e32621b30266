//! The coordinator's instruction to an agent, and the agent's answer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::flow::FlowKey;
use crate::forwarding_state::ForwardingState;
use crate::plan::Generation;
use crate::probing::ProbeList;

/// A fencing token of an instruction from a committed plan: later plans have higher tokens, and an agent never follows
/// a token below the highest it has seen.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instruction {
    Watch(Watch),
    Install(Install),
    Probe(ProbeList),
    Closely(FastSampling),
    Unconfirmed(Unconfirmed),
}

impl Instruction {
    /// Returns the desired state, confirmed or not.
    pub fn install(&self) -> Option<&Install> {
        match self {
            Self::Install(install) => Some(install),
            Self::Unconfirmed(it) => Some(&it.install),
            Self::Watch(_) | Self::Probe(_) | Self::Closely(_) => None,
        }
    }
}

/// Objects that an agent observes. Each message replaces the previous one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Flows to trace.
    pub trace: Vec<FlowKey>,
}

/// For this time, the agent sends interface readings more often than its reports, because the coordinator waits for
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastSampling {
    pub for_ms: u32,
}

/// The complete desired state of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Install {
    pub generation: Generation,
    pub token: Token,
    pub holding: ForwardingState,
}

/// An installation that must be confirmed, as in the confirmed commit of RFC 6241, section 8.4: the node rolls back
/// unless the confirmation arrives in time. A later token for the same generation and state confirms it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unconfirmed {
    pub install: Install,
    pub confirm_timeout_ms: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    pub generation: Generation,
    pub token: Token,
    /// State of the kernel as read back, or the reason why it is unchanged.
    pub outcome: Result<ForwardingState, InstallRefusal>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstallRefusal {
    /// The agent has followed a later instruction, with this generation and token.
    Older { held: Generation, token: Token },
    /// The agent has this generation with other rules, or this token with another generation.
    DifferentContent { held: Generation, token: Token },
    /// The kernel refused; the previous state is restored.
    Kernel {
        #[serde(deserialize_with = "crate::printable::text")]
        error: String,
    },
    /// The agent could not write the instruction down before acting on it.
    NotDurable {
        #[serde(deserialize_with = "crate::printable::text")]
        error: String,
    },
    /// The node does not forward, so it cannot pin other hosts' flows. Any node can hold routes.
    NotASwitch,
    /// The kernel refused the new and the previous state, and may hold a part of either.
    RestoreFailed {
        #[serde(deserialize_with = "crate::printable::text")]
        error: String,
    },
}

impl fmt::Display for InstallRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Older { held, token } => write!(
                f,
                "it has followed a later instruction, generation {held} under token {token}"
            ),
            Self::DifferentContent { held, .. } => {
                write!(f, "it holds generation {held} with different rules")
            }
            Self::Kernel { error } => write!(f, "its kernel refused: {error}"),
            Self::NotDurable { error } => write!(f, "it could not write its state: {error}"),
            Self::NotASwitch => f.write_str("it forwards nothing"),
            Self::RestoreFailed { error } => {
                write!(
                    f,
                    "its kernel refused, and restoring the previous state failed: {error}"
                )
            }
        }
    }
}
