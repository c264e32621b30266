//! Requests of operators about a running plan.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Steering {
    /// Steps that have started are completed, and no further step starts.
    Hold,
    /// The plan continues, and a failed step is retried at once.
    Resume,
    /// The plan is aborted, and its changes are rolled back without packet loss.
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
