//! A plan's changes, line by line, and the effect of each line on running jobs.

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
    /// A node sends what is for this many hosts over other links, or by the network's own routes.
    Routes {
        node: String,
        towards: u32,
    },
    Ranks(Ranks),
}

/// The order that a job's ranks are to follow each other in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Ranks {
    pub job: String,
    pub order: Vec<String>,
    /// What each host can send the next around a ring, as it is and in this order.
    pub ring_bits_per_s: Option<[Rate; 2]>,
}

/// A circuit of an optical switch, and what is plugged in at its ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Joint {
    pub optical: String,
    pub circuit: Circuit,
    pub ends: Vec<String>,
}

/// When jobs may notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tag {
    /// Done under running jobs as it is.
    LiveSafe,
    /// Done when traffic has been led around it, and nothing is seen to pass it.
    NeedsDrain,
    /// A job takes it up when it starts the next time.
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

/// More hosts of a job are counted.
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
