//! Replaces a file as a whole: the new one is written beside it, synced, and renamed.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile};

fn beside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// The file as it was until the new one is whole on disk, and then the new one.
pub(super) fn replace<D: Disk>(disk: &D, path: &Path, content: &[u8]) -> io::Result<()> {
    write_beside(disk, path, content)?;
    take_place(disk, path)
}

/// What is to take the place of the file, whole on disk.
pub(super) fn write_beside<D: Disk>(disk: &D, path: &Path, content: &[u8]) -> io::Result<D::File> {
    let write = || -> io::Result<D::File> {
        let mut file = disk.create(&beside(path))?;
        file.append(content)?;
        file.sync_all()?;
        Ok(file)
    };
    write().inspect_err(|_| {
        // Half a file only takes room; the next one takes its place anyhow.
        remove_beside(disk, path);
    })
}

/// What was written beside the file is not wanted any longer.
pub(super) fn remove_beside<D: Disk>(disk: &D, path: &Path) {
    let _ = disk.remove(&beside(path));
}

/// What was written beside the file takes its place.
pub(super) fn take_place<D: Disk>(disk: &D, path: &Path) -> io::Result<()> {
    disk.rename(&beside(path), path)?;
    // The name is an entry of the folder, which has to reach the disk too.
    disk.sync_folder(path.parent().unwrap_or(Path::new(".")))
}
