//! Replaces a file as a whole: the new one is written beside it, synced, and renamed.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};

fn beside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Replaces the file. Until the new one is durable, the old one stays.
pub(super) fn replace<D: Disk>(disk: &D, path: &Path, content: &[u8]) -> io::Result<()> {
    write_beside(disk, path, content)?;
    take_place(disk, path)
}

/// Writes the new file, durable, under another name.
pub(super) fn write_beside<D: Disk>(disk: &D, path: &Path, content: &[u8]) -> io::Result<D::File> {
    let write = || -> io::Result<D::File> {
        let mut file = disk.create(&beside(path))?;
        file.append(content)?;
        file.sync_all()?;
        Ok(file)
    };
    write().inspect_err(|_| {
        // An incomplete file only takes space, and the next one overwrites it.
        remove_beside(disk, path);
    })
}

/// Removes the file that was to replace the log.
pub(super) fn remove_beside<D: Disk>(disk: &D, path: &Path) {
    let _ = disk.remove(&beside(path));
}

/// Renames the new file over the log.
pub(super) fn take_place<D: Disk>(disk: &D, path: &Path) -> io::Result<()> {
    disk.rename(&beside(path), path)?;
    // The new name becomes durable with its folder.
    disk.sync_folder(path.parent().unwrap_or(Path::new(".")))
}
