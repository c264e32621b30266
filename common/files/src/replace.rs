//! Replaces a file as a whole: the new one is written beside it, synced, and renamed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{FileHandle, FileSystem};

fn beside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Replaces the file. Until the new one is durable, the old one stays.
pub fn replace<F: FileSystem>(files: &F, path: &Path, content: &[u8]) -> io::Result<()> {
    write_beside(files, path, content)?;
    take_place(files, path)
}

/// Writes the new file, durable, under another name.
pub fn write_beside<F: FileSystem>(files: &F, path: &Path, content: &[u8]) -> io::Result<F::File> {
    let write = || -> io::Result<F::File> {
        let mut file = files.create(&beside(path))?;
        file.write_all(content)?;
        file.sync_all()?;
        Ok(file)
    };
    write().inspect_err(|_| {
        // An incomplete file only takes space, and the next one overwrites it.
        remove_beside(files, path);
    })
}

/// Removes the new file that was to replace this one.
pub fn remove_beside<F: FileSystem>(files: &F, path: &Path) {
    let _ = files.remove(&beside(path));
}

/// Renames the new file over the old one.
pub fn take_place<F: FileSystem>(files: &F, path: &Path) -> io::Result<()> {
    files.rename(&beside(path), path)?;
    // The new name becomes durable with its folder.
    files.sync_folder(path.parent().unwrap_or(Path::new(".")))
}
