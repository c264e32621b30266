//! What a person wants of a plan that is on its way.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Refused, too_wide};
use crate::plan::Generation;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Steering {
    /// What it has begun ends, and it begins nothing else.
    Hold,
    /// It goes on, and what could not be done is tried again at once.
    Resume,
    /// It is given up: what was done is taken back, in an order that is safe.
    Abort,
}

impl Steering {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Resume => "resume",
            Self::Abort => "abort",
        }
    }
}

impl fmt::Display for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Refused {
    pub(super) fn of_plans(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooWide {
                touched_percent,
                most_percent,
            } => too_wide(f, *touched_percent, *most_percent),
            Self::NotUnderWay { generation } => not_under_way(f, *generation),
            Self::NotStopped { generation } => {
                write!(f, "nothing holds plan {generation}: it goes on by itself")
            }
            Self::GoesBack { generation } => {
                write!(f, "plan {generation} is being taken back already")
            }
            // All others are not of plans that are, or are to be, on their way.
            _ => Ok(()),
        }
    }
}

fn not_under_way(f: &mut fmt::Formatter<'_>, generation: Generation) -> fmt::Result {
    write!(
        f,
        "plan {generation} is not on its way; `reweave status` tells which are, and `reweave rollback` takes back \
         what was kept"
    )
}
