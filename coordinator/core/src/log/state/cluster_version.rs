//! The cluster version: the log has no decision of a later version.
//!
//! It rises once all coordinators can read more. An operator lowers it before coordinators of the previous release
//! replace those of this one. From then on, the state and all decisions are readable by the previous release.

use std::collections::BTreeSet;

use super::{Signed, State};

impl State {
    /// The minor version of the protocol that all coordinators read: nothing later is decided.
    pub fn cluster_version(&self) -> u16 {
        self.cluster_version
    }

    /// Who has lowered it, since when it is not raised by itself.
    pub fn lowered(&self) -> Option<&Signed> {
        self.lowered.as_ref()
    }

    pub(super) fn raise_version(&mut self, minor: u16) {
        if minor > self.cluster_version {
            (self.cluster_version, self.lowered) = (minor, None);
        }
    }

    /// A plan on its way may be in a phase that the earlier release does not know, and goes by the rules of the version that
    /// it began in. Of plans that were refused, reasons are forgotten that the earlier release does not know, and so are removed
    /// coordinators: it would not lift the removal of one that is added again.
    pub(super) fn lower_version(&mut self, minor: u16, by: Signed) {
        if minor < self.cluster_version && self.under_way().next().is_none() {
            let at = by.at;
            (self.cluster_version, self.lowered) = (minor, Some(by));
            for ended in &mut self.history {
                ended.outcome.keep_reasons_of(minor);
            }
            self.membership.handle_removed(at, &BTreeSet::new());
        }
    }
}
