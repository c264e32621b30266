//! Why a change cannot be rolled back.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::plan::Generation;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RollbackRefused {
    /// Nothing was changed and kept, or all that was is rolled back.
    NothingKept,
    /// It is not remembered, or was not kept.
    NotKept { generation: Generation },
    /// A later change was made on top of it.
    BuiltUpon {
        generation: Generation,
        by: Generation,
    },
    /// That was done already.
    Undone {
        generation: Generation,
        by: Generation,
    },
    /// It takes another one back.
    IsOneItself { generation: Generation },
    /// What was before it is not remembered any longer.
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
