//! A folder as a shelf, by the files that all durable state rests on.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::Bytes;
use reweave_common::lock::lock;
use reweave_files::{Entry, FileSystem, replace};

use crate::shelf::{Listed, Shelf, ShelfError};

/// Of files that are being written, and of those that a crash left behind.
const UNFINISHED_EXTENSION: &str = "new";

#[derive(Debug)]
pub(crate) struct Folder<F> {
    files: F,
    root: PathBuf,
    /// Folders below whose names are surely on disk. One that is found may come from a process that was killed before it
    /// synced the name.
    synced: Mutex<BTreeSet<PathBuf>>,
}

impl<F: FileSystem> Folder<F> {
    /// Made where it is missing.
    pub(crate) fn make(files: F, root: &Path) -> Result<Self, ShelfError> {
        files
            .make_folder(root)
            .map_err(|source| ShelfError::Folder {
                folder: root.to_owned(),
                source,
            })?;
        Self::open(files, root)
    }

    pub(crate) fn open(files: F, root: &Path) -> Result<Self, ShelfError> {
        let reached = files.list(root);
        reached.map_err(|problem| ShelfError::Reach {
            url: root.display().to_string(),
            problem,
        })?;
        Ok(Self {
            files,
            root: root.to_owned(),
            synced: Mutex::default(),
        })
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.root);
        if !lock(&self.synced).contains(folder) {
            self.make_below(folder)?;
        }
        replace(&self.files, path, content)
    }

    /// Each is an entry of the one above, which has to reach the disk too.
    fn make_below(&self, folder: &Path) -> io::Result<()> {
        self.files.make_folder(folder)?;
        for below in folder.ancestors().take_while(|it| *it != self.root) {
            self.files
                .sync_folder(below.parent().unwrap_or(&self.root))?;
        }
        lock(&self.synced).insert(folder.to_owned());
        Ok(())
    }

    /// All files in and below a folder. What goes meanwhile is left out.
    fn list_into(&self, folder: &Path, listed: &mut Vec<Listed>) -> io::Result<()> {
        for path in if_there(self.files.list(folder))? {
            match if_there(self.files.entry(&path).map(Some))? {
                None => {}
                Some(Entry::Folder) => self.list_into(&path, listed)?,
                Some(Entry::File { bytes }) => listed.extend(self.listed(&path, bytes)),
            }
        }
        Ok(())
    }

    /// None where it is unfinished, or has a name that no store has.
    fn listed(&self, path: &Path, bytes: u64) -> Option<Listed> {
        let is_unfinished = path
            .extension()
            .is_some_and(|it| it == UNFINISHED_EXTENSION);
        let name = path.strip_prefix(&self.root).ok()?.to_str()?.to_owned();
        (!is_unfinished).then_some(Listed { name, bytes })
    }
}

impl<F: FileSystem + Send> Shelf for Folder<F> {
    fn put(&self, name: &str, content: Bytes) -> Result<(), ShelfError> {
        let written = self.write(&self.root.join(name), &content);
        written.map_err(failed("write", name))
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>, ShelfError> {
        let read = self.files.read(&self.root.join(name));
        let content = if_there(read.map(Some)).map_err(failed("read", name))?;
        Ok(content.map(Bytes::from))
    }

    fn list(&self, folder: Option<&str>) -> Result<Vec<Listed>, ShelfError> {
        let mut listed = Vec::new();
        let top = folder.map_or_else(|| self.root.clone(), |below| self.root.join(below));
        let name = folder.unwrap_or("the files");
        self.list_into(&top, &mut listed)
            .map_err(failed("list", name))?;
        Ok(listed)
    }

    fn remove(&self, name: &str) -> Result<(), ShelfError> {
        let removed = self.files.remove(&self.root.join(name));
        if_there(removed).map_err(failed("remove", name))
    }
}

/// That something is not there is no failure.
fn if_there<T: Default>(outcome: io::Result<T>) -> io::Result<T> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
        other => other,
    }
}

fn failed(what: &'static str, name: &str) -> impl FnOnce(io::Error) -> ShelfError {
    let file = name.to_owned();
    move |problem| ShelfError::Local {
        what,
        file,
        problem,
    }
}

#[cfg(test)]
mod tests {
    use reweave_sim_disk::{LossyFiles, ROOT};

    use super::*;

    const NAME: &str = "kind=links/hour=14/part-1.parquet";

    fn folder_on(files: &LossyFiles) -> Folder<LossyFiles> {
        Folder::open(files.clone(), Path::new(ROOT)).unwrap()
    }

    /// At each operation, also where an earlier process was killed at it and has left folders that it did not sync.
    #[test]
    fn written_file_survives_power_loss() {
        for operation in 1.. {
            let files = LossyFiles::exact();
            files.die_at(operation);
            let is_written = folder_on(&files)
                .put(NAME, Bytes::from_static(b"it"))
                .is_ok();
            files.revive();
            let again = folder_on(&files);
            let others = ["kind=links/hour=14/part-2.parquet", "part-3.parquet"];
            for other in others {
                again.put(other, Bytes::from_static(b"it")).unwrap();
            }
            // No name that was not synced is kept.
            files.lose_power_but(1);
            let left = folder_on(&files);
            for name in others.into_iter().chain(is_written.then_some(NAME)) {
                let found = left.get(name).unwrap();
                assert_eq!(found.as_deref(), Some(&b"it"[..]), "{operation}: {name}");
            }
            if is_written {
                assert!(operation > 7, "{operation} operations are too few");
                return;
            }
        }
    }

    #[test]
    fn unfinished_file_is_not_listed() {
        let files = LossyFiles::exact();
        let folder = folder_on(&files);
        folder.put(NAME, Bytes::from_static(b"it")).unwrap();
        files.create(&Path::new(ROOT).join("part-2.new")).unwrap();
        let names = |folder| {
            let listed = folder_on(&files).list(folder).unwrap();
            listed.into_iter().map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(names(None), [NAME]);
        assert_eq!(names(Some("kind=links")), [NAME]);
        assert_eq!(names(Some("kind=flows")), [""; 0]);
        folder.remove(NAME).unwrap();
        folder.remove(NAME).unwrap();
        assert_eq!(folder.get(NAME).unwrap(), None);
    }
}
