//! Certificates and keys on disk: written atomically, and keys readable by their owner alone.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use tempfile::NamedTempFile;

use super::PkiError;

pub(crate) const PRIVATE_MODE: u32 = 0o600;
pub(crate) const PUBLIC_MODE: u32 = 0o644;
const GROUP_OTHER_BITS: u32 = 0o077;

pub(crate) fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|source| PkiError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Reads a key, unless others may read it too.
pub(crate) fn read_private(path: &Path) -> Result<String, PkiError> {
    let read_error = |source| PkiError::Read {
        path: path.to_owned(),
        source,
    };
    let mode = fs::metadata(path).map_err(read_error)?.permissions().mode() & 0o777;
    if mode & GROUP_OTHER_BITS != 0 {
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

/// Fails when there is a file at `path`, even one that came a moment ago.
pub(crate) fn write_new(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let placed = written_beside(path, text, mode)?.persist_noclobber(path);
    match placed {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(write_error(path, error.error)),
    }
}

/// A reader of `path` finds the complete old file or the complete new one.
pub(crate) fn replace(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    let placed = written_beside(path, text, mode)?.persist(path);
    placed
        .map(drop)
        .map_err(|error| write_error(path, error.error))
}

/// Held as long as a key and its certificate are put in place together, and while that is finished.
pub(crate) fn lock(dir: &Path) -> Result<File, PkiError> {
    let locked = || {
        let dir = File::open(dir)?;
        dir.lock()?;
        Ok(dir)
    };
    locked().map_err(|source| write_error(dir, source))
}

/// Puts one file of a folder in place of another.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), PkiError> {
    fs::rename(from, to).map_err(|source| write_error(to, source))
}

fn written_beside(path: &Path, text: &str, mode: u32) -> Result<NamedTempFile, PkiError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    // Readable by its owner alone until the mode is set, whatever the process's umask.
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
