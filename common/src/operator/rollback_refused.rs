//! Why a change cannot be rolled back.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::Generation;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RollbackRefused {
    /// No change was kept, or all changes were rolled back.
    NothingKept,
    /// The change is unknown, or was not kept.
    NotKept { generation: Generation },
    /// A later change depends on it.
    BuiltUpon {
        generation: Generation,
        by: Generation,
    },
    /// It was rolled back already.
    Undone {
        generation: Generation,
        by: Generation,
    },
    /// It is itself a rollback.
    IsOneItself { generation: Generation },
    /// The state before it is no longer stored.
    Forgotten { generation: Generation },
}

impl fmt::Display for RollbackRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingKept => f.write_str("no kept change to roll back"),
            Self::NotKept { generation } => write!(
                f,
                "plan {generation} was not applied and kept; `reweave history` lists the kept ones"
            ),
            Self::BuiltUpon { generation, by } => write!(
                f,
                "plan {by} depends on plan {generation}: roll it back first, with `reweave \
                 rollback {by}`"
            ),
            Self::Undone { generation, by } => {
                write!(f, "plan {generation} was rolled back already, by plan {by}")
            }
            Self::IsOneItself { generation } => write!(
                f,
                "plan {generation} is a rollback itself; `reweave plan` makes a new plan"
            ),
            Self::Forgotten { generation } => {
                write!(f, "the state before plan {generation} is no longer stored")
            }
        }
    }
}
