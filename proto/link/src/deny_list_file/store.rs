//! The deny list file: bounded, locked, and durable once it is written.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reweave_common::member::{ClockBounds, DenyLists};
use reweave_files::{Entry, FileSystem, replace_with_mode};

use super::DenyListError;
use super::format::{self, DenyListRecord, RecordAuthority};
use super::merge;
use crate::Identity;
use crate::pki::{self, files};

const DENIED_FILE: &str = "denied.json";
/// The maximum size of the file. Each coordinator takes up to 100 bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// The maximum time to wait for the lock. Another program holds it for two or three writes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct DenyListStore<F> {
    files: F,
    folder: PathBuf,
    path: PathBuf,
    authority: RecordAuthority,
}

impl<F: FileSystem> DenyListStore<F> {
    pub(super) fn new(files: F, folder: &Path, identity: &Identity) -> Self {
        Self {
            files,
            folder: folder.to_owned(),
            path: folder.join(DENIED_FILE),
            authority: RecordAuthority::of(identity),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the folder: programs that write to it wait for each other.
    pub(super) fn lock(&self) -> Result<File, DenyListError> {
        files::lock_within(&self.folder, LOCK_TIMEOUT).map_err(|source| DenyListError::Lock {
            folder: self.folder.clone(),
            source,
        })
    }

    /// Reads the lists. They are empty if there is no file, or if it was written for another cluster.
    pub(super) fn read(&self) -> Result<DenyLists, DenyListError> {
        let path = self.path.clone();
        let bytes = match self.bounded() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(DenyLists::default());
            }
            Err(source) => return Err(DenyListError::Read { path, source }),
        };
        let record = match format::decode(&bytes) {
            Ok(Ok(record)) => record,
            Ok(Err(version)) => return Err(DenyListError::OtherVersion { path, version }),
            Err(source) => return Err(DenyListError::Damaged { path, source }),
        };
        if record.authority == self.authority {
            Ok(record.denied.into())
        } else {
            Ok(DenyLists::default())
        }
    }

    /// Adds these lists to those in the file, which another program may have written meanwhile, and returns all. They
    /// are written even if they are in the file: it may not be on disk yet. The caller holds the lock.
    pub(super) fn merge(
        &self,
        lists: DenyLists,
        clock: ClockBounds,
    ) -> Result<DenyLists, DenyListError> {
        let mut all = self.read()?;
        merge::merge(&mut all, lists, clock);
        let record = DenyListRecord::new(self.authority.clone(), &all);
        let content = format::encode(&record);
        let written = replace_with_mode(&self.files, &self.path, self.mode(), content.as_bytes());
        written.map_err(|source| DenyListError::Write {
            path: self.path.clone(),
            source,
        })?;
        Ok(all)
    }

    fn bounded(&self) -> io::Result<Vec<u8>> {
        match self.files.entry(&self.path)? {
            Entry::File { bytes } if bytes > MAX_FILE_BYTES => {
                Err(io::ErrorKind::FileTooLarge.into())
            }
            Entry::File { .. } | Entry::Folder => self.files.read(&self.path),
        }
    }

    fn mode(&self) -> u32 {
        if pki::is_shared(&self.folder) {
            files::PUBLIC_MODE
        } else {
            files::PRIVATE_MODE
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use reweave_common::member::{Admission, Member, Role};
    use reweave_sim_disk::{LossyFiles, ROOT};

    use super::*;
    use crate::pki::{Authority, Validity};

    fn removing(as_of: u64, names: &[&str]) -> DenyLists {
        let members = names
            .iter()
            .map(|name| Member::new(Role::Coordinator, name));
        DenyLists {
            as_of: Admission(as_of),
            removed: members.map(|member| (member, Admission(as_of))).collect(),
            ..DenyLists::default()
        }
    }

    /// Power is lost at each operation, with each part of the unsynced data.
    #[test]
    fn confirmed_denial_survives_power_loss() {
        let home = tempfile::tempdir().unwrap();
        let authority = Authority::create(&home.path().join("ca"), "lab").unwrap();
        let issued = authority.issue(Role::Agent, "h0", Validity::day(), home.path());
        issued.unwrap();
        let identity = Identity::load(home.path()).unwrap();
        let clock = merge::clock_at(SystemTime::now());
        let [before, after] = [removing(7, &["c1"]), removing(9, &["c1", "c2"])];
        for operation in 1.. {
            let mut always_written = true;
            for kept_bytes in 0..300 {
                let files = LossyFiles::exact();
                let store = DenyListStore::new(files.clone(), Path::new(ROOT), &identity);
                store.merge(before.clone(), clock).unwrap();
                files.die_at(operation);
                let written = store.merge(after.clone(), clock);
                always_written &= written.is_ok();
                files.lose_power_but(kept_bytes);
                let found = store.read().unwrap();
                let is_kept = found == after || (found == before && written.is_err());
                let of_operation = format!("operation {operation}, {kept_bytes} bytes");
                assert!(is_kept, "{of_operation}: {found:?} after {written:?}");
                assert_eq!(store.merge(after.clone(), clock).unwrap(), after);
            }
            if always_written {
                assert!(operation > 5, "{operation} operations are too few");
                return;
            }
        }
    }
}
