//! Operators' requests about a running plan.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Steering {
    /// What it has begun ends, and it begins nothing else.
    Hold,
    /// It goes on, and what could not be done is tried again at once.
    Resume,
    /// It is given up: what was done is rolled back, in an order that is safe.
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
