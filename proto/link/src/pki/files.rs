//! Certificates and keys on disk. They are written atomically and durably, and only its owner can read a key. Root may share a
//! member's key with a group.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use reweave_files::{FileSystem, LocalFiles};
use tempfile::NamedTempFile;

use super::PkiError;

pub(crate) const PRIVATE_MODE: u32 = 0o600;
pub(crate) const PUBLIC_MODE: u32 = 0o644;
const GROUP_OTHER_BITS: u32 = 0o077;
const GROUP_READ_BIT: u32 = 0o040;
const ROOT_UID: u32 = 0;
/// Other programs hold the lock for two or three writes.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

pub(crate) fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|source| PkiError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Reads a key, unless others than its owner may read it.
pub(crate) fn read_private(path: &Path) -> Result<String, PkiError> {
    let (mode, _) = mode_and_owner(path)?;
    read_key(path, mode, mode & GROUP_OTHER_BITS == 0)
}

/// Reads a member's key, unless others than its owner, or than root and a group, may read it.
pub(crate) fn read_member_key(path: &Path) -> Result<String, PkiError> {
    let (mode, owner) = mode_and_owner(path)?;
    read_key(path, mode, is_secret(mode, owner))
}

/// Whether a key with this mode and owner is secret enough. The rule is that of PostgreSQL: only root may share a file
/// with a group, so a user cannot share a key by mistake.
pub(crate) fn is_secret(mode: u32, owner: u32) -> bool {
    let others = mode & GROUP_OTHER_BITS;
    others == 0 || (others == GROUP_READ_BIT && owner == ROOT_UID)
}

/// Whether a group may read this member's key. A renewed key would be readable by its owner alone.
pub(super) fn is_shared(path: &Path) -> bool {
    mode_and_owner(path).is_ok_and(|(mode, _)| mode & GROUP_READ_BIT != 0)
}

fn mode_and_owner(path: &Path) -> Result<(u32, u32), PkiError> {
    let metadata = fs::metadata(path).map_err(|source| PkiError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok((metadata.permissions().mode() & 0o777, metadata.uid()))
}

fn read_key(path: &Path, mode: u32, is_secret: bool) -> Result<String, PkiError> {
    if !is_secret {
        let path = path.to_owned();
        return Err(PkiError::TooOpen { path, mode });
    }
    read(path)
}

pub(super) fn refuse_existing(path: &Path) -> Result<(), PkiError> {
    match path.symlink_metadata() {
        Ok(_) => Err(exists(path)),
        Err(_) => Ok(()),
    }
}

pub(super) fn make_private_dir(path: &Path) -> Result<(), PkiError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| PkiError::MakeDir {
            path: path.to_owned(),
            source,
        })
}

/// Creates a file. Fails if there is a file at `path`, even one created just now.
pub(crate) fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let placed = written_beside(path, text, mode)?.persist_noclobber(path);
    match placed {
        Ok(_) => LocalFiles
            .sync_folder(folder_of(path))
            .map_err(|source| write_error(path, source)),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(write_error(path, error.error)),
    }
}

/// Replaces the file by one with this mode, which belongs to the owner of the folder. The caller holds the folder's lock.
pub(crate) fn replace<F: FileSystem>(
    files: &F,
    path: &Path,
    text: &str,
    mode: u32,
) -> Result<(), PkiError> {
    let replaced = reweave_files::replace_with_mode(files, path, mode, text.as_bytes());
    replaced.map_err(|source| write_error(path, source))
}

/// Locks a folder while its keys and certificates are replaced.
pub(crate) fn lock(dir: &Path) -> Result<File, PkiError> {
    let locked = || {
        let dir = File::open(dir)?;
        dir.lock()?;
        Ok(dir)
    };
    locked().map_err(|source| write_error(dir, source))
}

/// Takes the same lock, or fails if other programs hold it for this long.
pub(crate) fn lock_within(dir: &Path, timeout: Duration) -> io::Result<File> {
    let end = Instant::now() + timeout;
    let dir = File::open(dir)?;
    loop {
        match dir.try_lock() {
            Ok(()) => return Ok(dir),
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                thread::sleep(LOCK_RETRY_INTERVAL);
            }
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::TimedOut.into()),
            Err(TryLockError::Error(source)) => return Err(source),
        }
    }
}

/// Renames one file of a folder over another, durably.
pub(super) fn rename<F: FileSystem>(files: &F, from: &Path, to: &Path) -> Result<(), PkiError> {
    let renamed = reweave_files::rename_durable(files, from, to);
    renamed.map_err(|source| write_error(to, source))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

fn written_beside(path: &Path, text: &str, mode: u32) -> Result<NamedTempFile, PkiError> {
    // Only its owner can read the file until the mode is set: the umask has no effect.
    let write = || {
        let mut file = NamedTempFile::new_in(folder_of(path))?;
        file.as_file()
            .set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file)
    };
    write().map_err(|source| write_error(path, source))
}

fn exists(path: &Path) -> PkiError {
    PkiError::Exists {
        path: path.to_owned(),
    }
}

fn write_error(path: &Path, source: io::Error) -> PkiError {
    PkiError::Write {
        path: path.to_owned(),
        source,
    }
}
