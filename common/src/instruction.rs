//! The coordinator's instruction to an agent, and the agent's answer.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::flow::FlowKey;
use crate::forwarding_state::ForwardingState;
use crate::plan::Generation;
use crate::probing::ProbeList;

/// Proves that an instruction comes from a committed intent: later intents have higher tokens, and
/// an agent that has seen one never follows a lower.
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
    /// What it wants installed, confirmed or not.
    pub fn install(&self) -> Option<&Install> {
        match self {
            Self::Install(install) => Some(install),
            Self::Unconfirmed(it) => Some(&it.install),
            Self::Watch(_) | Self::Probe(_) | Self::Closely(_) => None,
        }
    }
}

/// What an agent observes. Each one replaces the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Flows whose path matters.
    pub trace: Vec<FlowKey>,
}

/// For this time, the agent sends interface readings many times between two reports, since the coordinator waits for
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

/// As in the confirmed commit of RFC 6241, section 8.4: a node rolls back unless the instruction is confirmed in
/// time. A later token for the same generation and state confirms it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unconfirmed {
    pub install: Install,
    pub confirm_timeout_ms: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    pub generation: Generation,
    pub token: Token,
    /// What the kernel holds, read back; or why it holds what it held before.
    pub outcome: Result<ForwardingState, InstallRefusal>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstallRefusal {
    /// The agent has followed a later instruction already: that of this generation and token.
    Older { held: Generation, token: Token },
    /// It knows this generation with other rules, or this token with another generation.
    DifferentContent { held: Generation, token: Token },
    /// The kernel would not take it; what was there before is there again.
    Kernel {
        #[serde(deserialize_with = "crate::printable::text")]
        error: String,
    },
    /// It could not note the instruction down before acting on it.
    NotDurable {
        #[serde(deserialize_with = "crate::printable::text")]
        error: String,
    },
    /// It is instructed to pin flows of others, and forwards nothing. Routes any node may hold.
    NotASwitch,
    /// The kernel would not take it, nor what was there before: it may hold some of both.
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
