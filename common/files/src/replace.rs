//! Replaces a file as a whole: the new one is written beside it, synced, and renamed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{FileHandle, FileSystem};

/// One name for each file, so that the next start finds what a crash left. Two processes that write the same file need names of
/// their own: see [`replace_through`].
fn beside(path: &Path) -> PathBuf {
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    new.into()
}

/// Replaces the file. Until the new one is durable, the old one stays.
pub fn replace<F: FileSystem>(files: &F, path: &Path, content: &[u8]) -> io::Result<()> {
    write_beside(files, path, content)?;
    take_place(files, path)
}

/// The same by a new file of this name, in the same folder. [`io::ErrorKind::AlreadyExists`] where another writer has that name,
/// and then nothing is changed.
pub fn replace_through<F: FileSystem>(
    files: &F,
    new: &Path,
    path: &Path,
    content: &[u8],
) -> io::Result<()> {
    let file = files.create_new(new)?;
    write_durable(files, new, file, content)?;
    rename_durable(files, new, path).inspect_err(|_| remove_incomplete(files, new))
}

/// Writes the new file, durable, under another name.
pub fn write_beside<F: FileSystem>(files: &F, path: &Path, content: &[u8]) -> io::Result<F::File> {
    let new = beside(path);
    let file = files.create(&new)?;
    write_durable(files, &new, file, content)
}

fn write_durable<F: FileSystem>(
    files: &F,
    new: &Path,
    mut file: F::File,
    content: &[u8],
) -> io::Result<F::File> {
    let written = file.write_all(content).and_then(|()| file.sync_all());
    written.inspect_err(|_| remove_incomplete(files, new))?;
    Ok(file)
}

/// It only takes space.
fn remove_incomplete<F: FileSystem>(files: &F, new: &Path) {
    let _ = files.remove(new);
}

/// Removes the new file that was to replace this one.
pub fn remove_beside<F: FileSystem>(files: &F, path: &Path) {
    remove_incomplete(files, &beside(path));
}

/// Renames the new file over the old one.
pub fn take_place<F: FileSystem>(files: &F, path: &Path) -> io::Result<()> {
    rename_durable(files, &beside(path), path)
}

fn rename_durable<F: FileSystem>(files: &F, new: &Path, path: &Path) -> io::Result<()> {
    files.rename(new, path)?;
    // The new name becomes durable with its folder.
    files.sync_folder(path.parent().unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::LocalFiles;

    /// Both are written before either has its name.
    #[test]
    fn names_alike_have_separate_drafts() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a.json", "a.csv"].map(|name| folder.path().join(name));
        for path in &paths {
            let content = path.extension().unwrap().as_encoded_bytes();
            write_beside(&LocalFiles, path, content).unwrap();
        }
        for path in &paths {
            take_place(&LocalFiles, path).unwrap();
            let content = path.extension().unwrap().as_encoded_bytes();
            assert_eq!(fs::read(path).unwrap(), content);
        }
    }

    #[test]
    fn draft_of_another_writer_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [new, path] = ["draft", "a.json"].map(|name| folder.path().join(name));
        fs::write(&new, "half of").unwrap();
        let refused = replace_through(&LocalFiles, &new, &path, b"ours").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&new).unwrap(), b"half of");
        fs::remove_file(&new).unwrap();
        replace_through(&LocalFiles, &new, &path, b"ours").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours");
        assert!(!new.exists());
    }

    /// A folder has the name that the file is to get.
    #[test]
    fn draft_of_failed_replacement_goes() {
        let folder = tempfile::tempdir().unwrap();
        let [new, path] = ["draft", "a.json"].map(|name| folder.path().join(name));
        fs::create_dir(&path).unwrap();
        replace_through(&LocalFiles, &new, &path, b"ours").unwrap_err();
        assert!(!new.exists());
    }
}
