//! The bandwidth between two hosts, as measured by packet trains.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::flow::FlowKey;
use crate::units::Rate;

/// The result of one flow's trains so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BandwidthReading {
    pub flow: FlowKey,
    pub bandwidth: Bandwidth,
    /// Routers on the path, traced just after the last train; a silent one is absent. None if no trace was complete in
    /// time.
    pub routers: Option<Vec<Option<Ipv4Addr>>>,
}

/// Rate of whole frames without their checksums, as kernels count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Bandwidth {
    /// The median of this many trains. The true value lies between the bounds with 95 % confidence.
    Known {
        #[serde(rename = "rate_bits_per_s")]
        rate: Rate,
        #[serde(rename = "least_bits_per_s")]
        least: Rate,
        #[serde(rename = "most_bits_per_s")]
        most: Rate,
        trains: u32,
    },
    /// The network was as fast as this host could send, and may be faster.
    AtLeast {
        #[serde(rename = "rate_bits_per_s")]
        rate: Rate,
        trains: u32,
    },
    /// The trains give no estimate.
    Unknown { why: Unclear, trains: u32 },
}

/// Why a train gave no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unclear {
    /// No train was sent so far, or too few.
    Few,
    /// Too much of it was lost.
    Lost,
    /// The train arrived in too few batches for a rate: interrupts are coalesced, or the path is too fast for the
    /// length of a train.
    Batched,
    /// The rate changed during the train: other traffic, or a token bucket that lets a burst pass.
    Unsteady,
}

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Few => "too few trains",
            Self::Lost => "too much was lost",
            Self::Batched => "packets arrive in batches",
            Self::Unsteady => "the rate varies: cross traffic or a token bucket",
        })
    }
}
