//! Replaces a file as a whole: the new one is written beside it, synced, and renamed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{FileHandle, FileSystem};

fn beside(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// The file as it was until the new one is whole on disk, and then the new one.
pub fn replace<F: FileSystem>(files: &F, path: &Path, content: &[u8]) -> io::Result<()> {
    write_beside(files, path, content)?;
    take_place(files, path)
}

/// What is to take the place of the file, whole on disk.
pub fn write_beside<F: FileSystem>(files: &F, path: &Path, content: &[u8]) -> io::Result<F::File> {
    let write = || -> io::Result<F::File> {
        let mut file = files.create(&beside(path))?;
        file.write_all(content)?;
        file.sync_all()?;
        Ok(file)
    };
    write().inspect_err(|_| {
        // Half a file only takes room; the next one takes its place anyhow.
        remove_beside(files, path);
    })
}

/// What was written beside the file is not wanted any longer.
pub fn remove_beside<F: FileSystem>(files: &F, path: &Path) {
    let _ = files.remove(&beside(path));
}

/// What was written beside the file takes its place.
pub fn take_place<F: FileSystem>(files: &F, path: &Path) -> io::Result<()> {
    files.rename(&beside(path), path)?;
    // The name is an entry of the folder, which has to reach the disk too.
    files.sync_folder(path.parent().unwrap_or(Path::new(".")))
}
