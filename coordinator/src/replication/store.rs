//! The log of this coordinator, on the disk of its machine.

use std::path::Path;

use reweave_replica::{LogError, Saved};

use super::disk::LocalDisk;

pub(crate) type Store = reweave_replica::Store<LocalDisk>;
pub(crate) type Opened = reweave_replica::Opened<LocalDisk>;

/// Opens the log; without one, begins one with this.
pub(crate) fn open(path: &Path, beginning: Option<Saved>) -> Result<Opened, LogError> {
    Store::open(LocalDisk, path, beginning)
}

/// Whether a start would take what lies there, if anything does. Changes nothing.
pub(crate) fn look(path: &Path) -> Result<Option<Saved>, LogError> {
    Store::look(&LocalDisk, path)
}

/// Refuses to go on where there is no log any longer.
pub(crate) fn expect_none(path: &Path) -> Result<(), LogError> {
    Store::expect_none(&LocalDisk, path)
}

#[cfg(test)]
mod tests;
