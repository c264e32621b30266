//! What any coordinator sends to any member, whether it leads or not: who is denied, and who coordinates.

use reweave_proto::message::Order;

use super::coordinator_list::CoordinatorList;
use crate::{DenyListFile, Session};

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Notices {
    pub(super) denied: DenyListFile,
    pub(super) known: CoordinatorList,
}

impl Notices {
    /// Unless its coordinator is denied: what it has sent before it was may still come.
    pub(super) fn note<T>(&self, from: &Session, notice: Order<T>) {
        match notice {
            Order::Denied(list) | Order::DeniedMore(list) => self.denied.note_revoked(from, list),
            Order::Removed(list) => self.denied.note_removed(from, list),
            Order::Coordinators(seats) if self.denied.check(from).is_ok() => self.known.note(seats),
            Order::Coordinators(_)
            | Order::Instructed(_)
            | Order::Renewed { .. }
            | Order::Elsewhere(_)
            | Order::Here => {}
        }
    }
}
