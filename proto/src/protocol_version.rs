//! The version of the protocol on the wire. `LATEST_MINOR` of the coordinators' log has the same minor, or the
//! coordinator does not compile.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A release speaks with the one before and the one after.
pub(crate) const MAX_MINOR_DIFFERENCE: u16 = 1;

/// What this build speaks.
pub const PROTOCOL_VERSION: Version = Version { major: 1, minor: 2 };

/// Majors do not understand each other. Within one, a later minor only adds kinds of messages, at the ends
/// of their lists: the files of shapes are held against each other for that. Sessions carry only what the
/// lower of both minors knows, by what [`crate::since_version`] says of each kind. A release raises the minor by
/// one at most, and speaks with the release before and the one after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Version {
    pub major: u16,
    pub minor: u16,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
