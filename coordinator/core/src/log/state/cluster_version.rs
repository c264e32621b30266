//! The cluster version limits the entries that may be written.
//!
//! It rises once all coordinators can read a later version. An operator lowers it before coordinators are downgraded
//! to the previous release. From then on, that release can read the state and all entries.

use std::collections::BTreeSet;

use super::{Signed, State};

/// The minor version since which removed coordinators are in the log.
const REMOVALS_SINCE_MINOR: u16 = 1;

impl State {
    /// The minor version of the protocol that all coordinators read: nothing later is decided.
    pub fn cluster_version(&self) -> u16 {
        self.cluster_version
    }

    /// Who lowered the version. It is not raised automatically while this is set.
    pub fn lowered(&self) -> Option<&Signed> {
        self.lowered.as_ref()
    }

    pub(super) fn raise_version(&mut self, minor: u16) {
        if minor > self.cluster_version {
            (self.cluster_version, self.lowered) = (minor, None);
        }
    }

    /// A running plan may be in a phase that the earlier release does not know; it keeps the rules of the version that
    /// it began in. What the earlier release does not know is dropped: new reasons of refused plans, and before 1.1
    /// removed coordinators, whose removal that release could not lift.
    pub(super) fn lower_version(&mut self, minor: u16, by: Signed) {
        if minor < self.cluster_version && self.under_way().next().is_none() {
            let at = by.at;
            (self.cluster_version, self.lowered) = (minor, Some(by));
            for ended in &mut self.history {
                ended.outcome.keep_reasons_of(minor);
            }
            if minor < REMOVALS_SINCE_MINOR {
                self.membership.handle_removed(at, &BTreeSet::new());
            }
        }
    }
}
