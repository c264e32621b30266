//! Notices that any coordinator sends to any member, whether it leads or not: denied members, and the list of
//! coordinators.

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
    /// Handles a notice, unless its coordinator is denied: messages that it sent before it was denied may still arrive.
    /// The next message of the session waits until the lists are in their file, and everything else continues.
    pub(super) async fn note<T>(&self, from: &Session, notice: Order<T>) {
        match notice {
            Order::Denied(list) | Order::DeniedMore(list) => {
                self.denied.note_revoked(from, list).await;
            }
            Order::Removed(list) => self.denied.note_removed(from, list).await,
            Order::Coordinators(seats) if self.denied.check(from).is_ok() => self.known.note(seats),
            Order::Coordinators(_)
            | Order::Instructed(_)
            | Order::Renewed { .. }
            | Order::Elsewhere(_)
            | Order::Here => {}
        }
    }
}
