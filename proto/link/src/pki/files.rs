//! Certificates and keys on disk: written atomically, and keys readable by their owner alone. A member's key may be
//! root's and shared with a group.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

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

/// The rule of PostgreSQL: only root may share a file with a group, so a user cannot share a key by mistake.
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

/// Fails if there is a file at `path`, even one created just now.
pub(crate) fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let placed = written_beside(path, text, mode)?.persist_noclobber(path);
    match placed {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(write_error(path, error.error)),
    }
}

/// Replaces the file atomically.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let placed = written_beside(path, text, mode)?.persist(path);
    placed
        .map(drop)
        .map_err(|error| write_error(path, error.error))
}

/// Locked while a key and its certificate are replaced together.
pub(crate) fn lock(dir: &Path) -> Result<File, PkiError> {
    let locked = || {
        let dir = File::open(dir)?;
        dir.lock()?;
        Ok(dir)
    };
    locked().map_err(|source| write_error(dir, source))
}

/// The same lock, unless other programs hold it for this long.
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

/// Renames one file of a folder over another.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), PkiError> {
    fs::rename(from, to).map_err(|source| write_error(to, source))
}

fn written_beside(path: &Path, text: &str, mode: u32) -> Result<NamedTempFile, PkiError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    // Readable by its owner alone until the mode is set, whatever the umask.
    let write = || {
        let mut file = NamedTempFile::new_in(dir)?;
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
