//! The minor version since which each kind of message is understood. Sessions check this for every message, and carry
//! nothing that the peer does not understand.

use reweave_common::operator::{Request, Response};

use crate::message::{AgentMessage, CoordinatorMessage, DriverMessage, Order, PeerPart};
use crate::protocol_version::{PROTOCOL_VERSION, Version};

/// Messages of a minor version have its number here; all others exist since the first version.
pub trait SinceVersion {
    /// The minor version that it came with.
    fn since(&self) -> u16;

    /// Whether a peer of this version understands it.
    fn is_known_at(&self, spoken: Version) -> bool {
        spoken >= came_with(self.since())
    }
}

/// The version that has this minor.
pub fn came_with(minor: u16) -> Version {
    Version {
        minor,
        ..PROTOCOL_VERSION
    }
}

impl SinceVersion for AgentMessage {
    fn since(&self) -> u16 {
        0
    }
}

impl SinceVersion for CoordinatorMessage {
    fn since(&self) -> u16 {
        let is_later = matches!(
            self,
            Self::Coordinators(_)
                | Self::DeniedMore(_)
                | Self::Closely(_)
                | Self::Unconfirmed(_)
                | Self::Removed(_)
        );
        u16::from(is_later)
    }
}

impl SinceVersion for DriverMessage {
    fn since(&self) -> u16 {
        0
    }
}

impl<T> SinceVersion for Order<T> {
    fn since(&self) -> u16 {
        let is_later = matches!(
            self,
            Self::Coordinators(_) | Self::DeniedMore(_) | Self::Removed(_)
        );
        u16::from(is_later)
    }
}

impl SinceVersion for PeerPart {
    fn since(&self) -> u16 {
        0
    }
}

impl SinceVersion for Request {
    fn since(&self) -> u16 {
        match self {
            Self::Policy | Self::PolicySet { .. } => 2,
            Self::Standing
            | Self::Steer { .. }
            | Self::Lanes { .. }
            | Self::Reorder { .. }
            | Self::ClusterVersion { .. }
            | Self::DenyLists => 1,
            _ => 0,
        }
    }
}

impl SinceVersion for Response {
    fn since(&self) -> u16 {
        match self {
            Self::Policy(_) => 2,
            Self::Standing(_)
            | Self::Steered { .. }
            | Self::Lanes(_)
            | Self::ClusterVersion { .. }
            | Self::DenyLists(_) => 1,
            _ => 0,
        }
    }
}
