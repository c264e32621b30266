//! Changes of a plan, one per line, with the effect of each line on running jobs.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::plan::Pin;
use crate::circuit::Circuit;
use crate::units::Rate;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Line {
    pub what: What,
    pub tag: Tag,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum What {
    Pin(Pin),
    Unpin(Pin),
    Connect(Joint),
    Disconnect(Joint),
    /// Traffic of a node for this number of hosts moves to other links, or to the network's own routes.
    Routes {
        node: String,
        towards: u32,
    },
    Ranks(Ranks),
}

/// New rank order of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Ranks {
    pub job: String,
    pub order: Vec<String>,
    /// Rate from each host to the next around a ring, in the present and in the new order.
    pub ring_bits_per_s: Option<[Rate; 2]>,
}

/// A circuit of an optical switch, with the devices at its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Joint {
    pub optical: String,
    pub circuit: Circuit,
    pub ends: Vec<String>,
}

/// When jobs can notice a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tag {
    /// Applied while jobs run.
    LiveSafe,
    /// Applied after traffic has been moved away and the links are idle.
    NeedsDrain,
    /// Takes effect at the next start of the job.
    NextRestart,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LiveSafe => "live-safe",
            Self::NeedsDrain => "needs drain",
            Self::NextRestart => "next restart",
        })
    }
}

/// Maximum number of hosts that are named; of more, the number is given.
const MAX_NAMED_HOSTS: usize = 16;

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, more) = self.order.split_at(MAX_NAMED_HOSTS.min(self.order.len()));
        write!(f, "order ranks of {}: {}", self.job, first.join(","))?;
        if !more.is_empty() {
            write!(f, " and {} more", more.len())?;
        }
        match self.ring_bits_per_s {
            Some([before, after]) => write!(f, " (ring from {before} to {after})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Joint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            optical,
            circuit,
            ends,
        } = self;
        write!(f, "{optical} {circuit}")?;
        match ends.as_slice() {
            [] => Ok(()),
            ends => write!(f, " ({})", ends.join(" to ")),
        }
    }
}
