//! The first message of every session: protocol version, cluster, build.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::frame::{self, WireError};
use crate::name::ClusterName;
use crate::protocol_version::MAX_MINOR_DIFFERENCE;
pub use crate::protocol_version::{PROTOCOL_VERSION, Version};

/// A hello is short, from any peer.
pub const MAX_HELLO_BYTES: usize = 1024;

/// Its fields stay as they are in all versions, so that any two can tell why they disagree; a later
/// version may add some at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: Version,
    pub cluster: String,
    /// For people; nothing depends on it.
    pub build: String,
}

impl Hello {
    pub fn new(cluster: &ClusterName) -> Self {
        Self {
            version: PROTOCOL_VERSION,
            cluster: cluster.to_string(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Unlike other messages, a hello may hold more than this version knows.
    pub fn decode(frame: &[u8]) -> Result<Self, WireError> {
        let (hello, _later) = postcard::take_from_bytes(frame).map_err(WireError::Garbage)?;
        Ok(hello)
    }

    pub fn encode(&self) -> Result<bytes::Bytes, WireError> {
        frame::encode(self)
    }

    /// The version both sides speak. Each side asks this of its own hello and the other's, and both
    /// come to the same answer.
    pub fn agree(&self, theirs: &Self) -> Result<Version, HelloError> {
        if self.version.major != theirs.version.major {
            return Err(HelloError::OtherMajor(self.versions(theirs)));
        }
        if self.version.minor.abs_diff(theirs.version.minor) > MAX_MINOR_DIFFERENCE {
            return Err(HelloError::FarMinor(self.versions(theirs)));
        }
        if self.cluster != theirs.cluster {
            return Err(HelloError::OtherCluster {
                ours: self.cluster.clone(),
                theirs: theirs.cluster.clone(),
            });
        }
        Ok(self.version.min(theirs.version))
    }

    fn versions(&self, theirs: &Self) -> VersionMismatch {
        VersionMismatch {
            ours: self.version,
            our_build: self.build.clone(),
            theirs: theirs.version,
            their_build: theirs.build.clone(),
        }
    }
}

/// The versions of two peers that cannot communicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionMismatch {
    pub ours: Version,
    pub our_build: String,
    pub theirs: Version,
    pub their_build: String,
}

impl fmt::Display for VersionMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ours,
            our_build,
            theirs,
            their_build,
        } = self;
        let older = if ours < theirs {
            "this one"
        } else {
            "the other side"
        };
        write!(
            f,
            "the other side speaks protocol {theirs} (build {their_build:?}), this one {ours} \
             (build {our_build:?}): upgrade {older}"
        )
    }
}

/// Why a peer's hello is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HelloError {
    #[error("{0}")]
    OtherMajor(VersionMismatch),
    /// More than one release lies between them.
    #[error("{0}, by one release after the other")]
    FarMinor(VersionMismatch),
    #[error("the other side belongs to cluster {theirs:?}, this one to {ours:?}")]
    OtherCluster { ours: String, theirs: String },
}
