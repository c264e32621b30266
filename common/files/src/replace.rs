//! Replaces a file as a whole: the new content is written to a draft beside the file, synced, and renamed over it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{FileHandle, FileSystem};

/// A new file that is written before it replaces another one in the same folder.
#[derive(Debug, Clone, Copy)]
pub struct DraftFile<'p> {
    /// No other writer may use the same path at the same time.
    pub path: &'p Path,
    /// With a mode, the draft is created by [`FileSystem::create_with_mode`], else by [`FileSystem::create_new`].
    pub mode: Option<u32>,
}

impl DraftFile<'_> {
    fn create<F: FileSystem>(&self, files: &F) -> io::Result<F::File> {
        match self.mode {
            Some(mode) => files.create_with_mode(self.path, mode),
            None => files.create_new(self.path),
        }
    }
}

/// The draft of a file always has the same name, so that the next start finds what a crash left. Processes that write the same
/// file take turns by a lock, or use [`replace_through`] with names of their own.
fn beside(path: &Path) -> PathBuf {
    let mut new = path.to_owned().into_os_string();
    new.push(".new");
    new.into()
}

/// Replaces the file. The old one stays until the new one is durable.
pub fn replace<F: FileSystem>(files: &F, path: &Path, content: &[u8]) -> io::Result<()> {
    write_beside(files, path, content)?;
    take_place(files, path)
}

/// Replaces the file by one with exactly this mode. A new file of root belongs to the owner of the folder. The caller holds a
/// lock that all writers of this file take: a draft that a crash left is removed.
pub fn replace_with_mode<F: FileSystem>(
    files: &F,
    path: &Path,
    mode: u32,
    content: &[u8],
) -> io::Result<()> {
    let new = beside(path);
    let _ = files.remove(&new);
    let draft = DraftFile {
        path: &new,
        mode: Some(mode),
    };
    replace_through(files, draft, path, content)
}

/// Replaces the file through this draft. If the draft exists already, another writer uses it: this fails with
/// [`io::ErrorKind::AlreadyExists`] and changes nothing.
pub fn replace_through<F: FileSystem>(
    files: &F,
    draft: DraftFile<'_>,
    path: &Path,
    content: &[u8],
) -> io::Result<()> {
    let file = draft.create(files)?;
    write_durable(files, draft.path, file, content)?;
    rename_durable(files, draft.path, path).inspect_err(|_| remove_incomplete(files, draft.path))
}

/// Writes the draft and syncs it.
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

/// A draft that stays does no harm: it only takes space.
fn remove_incomplete<F: FileSystem>(files: &F, new: &Path) {
    let _ = files.remove(new);
}

/// Removes the draft of this file.
pub fn remove_beside<F: FileSystem>(files: &F, path: &Path) {
    remove_incomplete(files, &beside(path));
}

/// Renames the draft over the file.
pub fn take_place<F: FileSystem>(files: &F, path: &Path) -> io::Result<()> {
    rename_durable(files, &beside(path), path)
}

/// Renames one file of a folder over another, and syncs the folder.
pub fn rename_durable<F: FileSystem>(files: &F, new: &Path, path: &Path) -> io::Result<()> {
    files.rename(new, path)?;
    // The new name becomes durable with its folder.
    files.sync_folder(path.parent().unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::LocalFiles;

    fn draft(path: &Path) -> DraftFile<'_> {
        DraftFile { path, mode: None }
    }

    /// Both drafts are written before either is renamed.
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
        let refused = replace_through(&LocalFiles, draft(&new), &path, b"ours").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&new).unwrap(), b"half of");
        fs::remove_file(&new).unwrap();
        replace_through(&LocalFiles, draft(&new), &path, b"ours").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"ours");
        assert!(!new.exists());
    }

    /// A folder with the name of the file prevents the rename.
    #[test]
    fn draft_of_failed_replacement_goes() {
        let folder = tempfile::tempdir().unwrap();
        let [new, path] = ["draft", "a.json"].map(|name| folder.path().join(name));
        fs::create_dir(&path).unwrap();
        replace_through(&LocalFiles, draft(&new), &path, b"ours").unwrap_err();
        assert!(!new.exists());
    }

    #[test]
    fn replaced_file_has_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        // A crash left a draft that others may read.
        fs::write(beside(&path), "half of").unwrap();
        for content in [&b"first"[..], b"second"] {
            replace_with_mode(&LocalFiles, &path, 0o600, content).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            assert!(!beside(&path).exists());
        }
    }
}
