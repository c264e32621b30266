//! The deny lists that a program has learned, in a file beside its certificate. The next program that starts there
//! refuses those coordinators before another one has sent it anything. Agents and drivers get the lists as notices, and
//! operators' commands as an answer.

mod format;
mod merge;
mod store;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use reweave_common::error::error_chain;
use reweave_common::lock::lock;
use reweave_common::member::{DeniedCoordinators, DenyList, DenyLists, RemovedCoordinators};
use reweave_files::LocalFiles;
use thiserror::Error;
use tokio::task::spawn_blocking;

use crate::{Identity, LinkError, Session};
pub(crate) use format::{decode, encode};
use store::DenyListStore;

#[derive(Debug, Error)]
pub enum DenyListError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged: it lists revoked and removed coordinators. Restore it from a backup. Remove it only if the \
         coordinator that is asked next is trusted: it sends the lists again", path.display()
    )]
    Damaged {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "{} has format version {version} and this program reads version {}: use the program that wrote it, or remove \
         the file if the coordinator that is asked next is trusted: it sends the lists again", path.display(),
        format::FORMAT_VERSION
    )]
    OtherVersion { path: PathBuf, version: u32 },
    #[error("cannot lock {}, which another program may use", folder.display())]
    Lock { folder: PathBuf, source: io::Error },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct DenyListFile {
    identity: Identity,
    store: DenyListStore<LocalFiles>,
    /// The lists in the file, unless the last write has failed. Several sessions may save them.
    saved: Arc<Mutex<Option<DenyLists>>>,
}

impl DenyListFile {
    /// Denies the members that programs with the identity of this folder have learned before. This machine's clock may
    /// be wrong until a coordinator is reached, so no date is checked against it here.
    pub fn load(folder: &Path, identity: &Identity) -> Result<Self, DenyListError> {
        let store = DenyListStore::new(LocalFiles, folder, identity);
        let lists = store.read()?;
        identity.denied().set_all(lists.clone());
        Ok(Self {
            identity: identity.clone(),
            store,
            saved: Arc::new(Mutex::new(Some(lists))),
        })
    }

    /// Refuses a peer that is denied since its session began.
    pub fn check(&self, peer: &Session) -> Result<(), LinkError> {
        let refusal = peer.credentials().denied_by(&self.identity.denied().now());
        match refusal {
            Some(source) => Err(LinkError::Refused {
                address: peer.address(),
                source,
            }),
            None => Ok(()),
        }
    }

    /// Takes over the answer of a coordinator that is not denied. The answer may deny that coordinator itself. A file that
    /// cannot be written fails no command.
    pub fn note(&self, from: &Session, denied: DeniedCoordinators) -> Result<(), LinkError> {
        self.check(from)?;
        self.learn(denied.into());
        if let Err(error) = self.save() {
            tracing::debug!("{}", error_chain(&error));
        }
        self.check(from)
    }

    /// Takes over a notice of a coordinator that is not denied: messages that it sent before it was denied may still
    /// arrive. The members are denied at once, and this returns when they are in the file.
    pub(crate) async fn note_revoked(&self, from: &Session, revoked: DenyList) {
        if self.check(from).is_ok() {
            self.revoke(revoked);
            self.save_apart().await;
        }
    }

    /// Takes over a list of all removed coordinators in the same way.
    pub(crate) async fn note_removed(&self, from: &Session, removed: RemovedCoordinators) {
        if self.check(from).is_ok() {
            self.replace_removed(removed);
            self.save_apart().await;
        }
    }

    fn learn(&self, theirs: DenyLists) {
        self.revoke(theirs.revoked);
        self.replace_removed(RemovedCoordinators {
            as_of: theirs.as_of,
            list: theirs.removed,
        });
    }

    fn revoke(&self, revoked: DenyList) {
        let clock = merge::clock_at(SystemTime::now());
        let denied = self.identity.denied();
        denied.change(|lists| merge::revoke(lists, revoked, clock));
    }

    fn replace_removed(&self, removed: RemovedCoordinators) {
        let clock = merge::clock_at(SystemTime::now());
        if !merge::is_plausible(&removed, clock) {
            return tracing::warn!(
                "a list of removed coordinators is ignored: its times are wrong"
            );
        }
        let denied = self.identity.denied();
        denied.change(|lists| merge::replace_removed(lists, removed, clock));
    }

    /// Saves the lists on another thread: the disk may be slow and the lock taken, and a member has one thread for
    /// everything. The write continues if the caller is cancelled, as by the end of a session with a coordinator that
    /// is now denied.
    async fn save_apart(&self) {
        let file = self.clone();
        let saved = spawn_blocking(move || {
            if let Err(error) = file.save() {
                tracing::error!(
                    "denied coordinators are forgotten at the next start, as they are not in {}: {}",
                    file.store.path().display(),
                    error_chain(&error)
                );
            }
        });
        // This fails only if the runtime ends.
        let _ = saved.await;
    }

    /// Writes the lists in force, and takes over those that another program has written meanwhile. If this fails, the
    /// next notice tries again, even one without news.
    fn save(&self) -> Result<(), DenyListError> {
        let mut saved = lock(&self.saved);
        let denied = self.identity.denied();
        let lists = denied.now().clone();
        // The same lists of a later time are not worth a write: an older list can only deny more until the next one comes.
        let is_saved =
            |saved: &DenyLists| saved.revoked == lists.revoked && saved.removed == lists.removed;
        if saved.as_ref().is_some_and(is_saved) {
            return Ok(());
        }
        *saved = None;
        let clock = merge::clock_at(SystemTime::now());
        let _alone = self.store.lock()?;
        let all = self.store.merge(lists, clock)?;
        denied.change(|lists| merge::merge(lists, all.clone(), clock));
        *saved = Some(all);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
