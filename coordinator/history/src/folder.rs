//! A shelf in a folder, through the files of durable state.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use reweave_common::lock::lock;
use reweave_files::{DraftFile, Entry, FileSystem, replace_through};

use crate::place::Place;
use crate::shelf::{Listed, Shelf, ShelfError};

/// The suffix of files that are being written, or that a crash left behind.
const UNFINISHED_SUFFIX: &str = ".new";
/// The maximum number of folders that are known to be synced. A writer uses few folders at a time.
const MAX_SYNCED_FOLDERS: usize = 256;
/// The maximum number of draft names that are tried. Other processes take fewer in a row.
const MAX_DRAFT_NAMES: usize = 100;

#[derive(Debug)]
pub(crate) struct Folder<F> {
    files: F,
    root: PathBuf,
    /// The folders whose names are surely on disk. A folder that exists may come from a process that was killed before
    /// it synced the name.
    synced: Mutex<BTreeSet<PathBuf>>,
}

impl<F: FileSystem> Folder<F> {
    /// Reads and creates nothing.
    pub(crate) fn at(files: F, root: &Path) -> Self {
        Self {
            files,
            root: root.to_owned(),
            synced: Mutex::default(),
        }
    }

    /// Creates the folder if it is missing, and removes leftovers of crashes from it.
    pub(crate) fn make(&self) -> Result<(), ShelfError> {
        let made = self.make_root();
        made.map_err(|source| ShelfError::Folder {
            folder: self.root.clone(),
            source,
        })?;
        self.reach()?;
        self.remove_leftovers();
        Ok(())
    }

    /// Checks that the folder exists and can be read.
    pub(crate) fn reach(&self) -> Result<(), ShelfError> {
        let reached = self.files.list(&self.root);
        reached.map(drop).map_err(|problem| ShelfError::Reach {
            url: self.root.display().to_string(),
            problem,
        })
    }

    /// Checks an existing folder in the same way. A missing folder can be created later.
    pub(crate) fn check(&self) -> Result<(), ShelfError> {
        match self.files.entry(&self.root) {
            Ok(Entry::Folder) => self.reach(),
            Ok(Entry::File { .. }) => Err(ShelfError::NoFolder {
                path: self.root.clone(),
            }),
            Err(_) => Ok(()),
        }
    }

    /// Creates folders from the top, each with its name on disk before the next one. So a process that is killed leaves
    /// at most the lowest folder with a name that may be lost.
    fn make_root(&self) -> io::Result<()> {
        let folders: Vec<_> = self.root.ancestors().collect();
        let missing = folders.iter().take_while(|it| self.is_missing(it));
        let (missing, there) = folders.split_at(missing.count());
        if let Some(lowest) = there.first() {
            // It may be a mount point, in a folder that cannot be synced.
            let _ = self.sync_name(lowest);
        }
        for folder in missing.iter().rev() {
            self.files.make_folder(folder)?;
            self.sync_name(folder)?;
        }
        self.files.make_folder(&self.root)
    }

    fn is_missing(&self, folder: &Path) -> bool {
        let found = self.files.entry(folder);
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Syncs the name of a folder, which is an entry of the folder above.
    fn sync_name(&self, folder: &Path) -> io::Result<()> {
        match folder.parent() {
            Some(above) => self.files.sync_folder(above),
            None => Ok(()),
        }
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let folder = path.parent().unwrap_or(&self.root);
        if !lock(&self.synced).contains(folder) {
            self.make_below(folder)?;
        }
        match self.replace(path, content) {
            // An administrator removed the folder, or another process removed the draft as a leftover.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                lock(&self.synced).clear();
                self.make_below(folder)?;
                self.replace(path, content)
            }
            written => written,
        }
    }

    /// Creates a folder below the root. Each new folder is an entry of the one above, which must be synced too.
    fn make_below(&self, folder: &Path) -> io::Result<()> {
        if self.is_missing(&self.root) {
            self.make_root()?;
        }
        self.files.make_folder(folder)?;
        for below in folder.ancestors().take_while(|it| *it != self.root) {
            self.sync_name(below)?;
        }
        let mut synced = lock(&self.synced);
        if synced.len() >= MAX_SYNCED_FOLDERS {
            synced.clear();
        }
        synced.insert(folder.to_owned());
        Ok(())
    }

    /// Replaces a file. Another process may be writing the same file, even one with the same process id on another
    /// machine.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        for _ in 0..MAX_DRAFT_NAMES {
            let new = draft_of(path);
            let draft = DraftFile {
                path: &new,
                mode: None,
            };
            match replace_through(&self.files, draft, path, content) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                written => return written,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes leftovers of history files: only one writer creates those at a time, and it writes missing files again.
    /// Other files may still be in progress. A leftover that cannot be removed only takes space.
    fn remove_leftovers(&self) {
        for folder in Place::all_folders() {
            let mut found = Vec::new();
            let _ = self.find_into(&self.root.join(folder), &mut found);
            for file in found.iter().filter(|file| is_leftover(&file.name)) {
                let _ = self.files.remove(&self.root.join(&file.name));
            }
        }
    }

    /// Finds all files in and below a folder. Files that disappear meanwhile are left out, and so are names that are
    /// not UTF-8.
    fn find_into(&self, folder: &Path, found: &mut Vec<Listed>) -> io::Result<()> {
        for path in if_there(self.files.list(folder))? {
            match if_there(self.files.entry(&path).map(Some))? {
                None => {}
                Some(Entry::Folder) => self.find_into(&path, found)?,
                Some(Entry::File { bytes }) => found.extend(self.listed(&path, bytes)),
            }
        }
        Ok(())
    }

    fn listed(&self, path: &Path, bytes: u64) -> Option<Listed> {
        let name = path.strip_prefix(&self.root).ok()?.to_str()?.to_owned();
        Some(Listed { name, bytes })
    }
}

/// Returns a draft name that no other writer of this process has. It begins with a dot, because other readers ignore
/// hidden files.
fn draft_of(path: &Path) -> PathBuf {
    static DRAFTS: AtomicU64 = AtomicU64::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{number}{UNFINISHED_SUFFIX}", process::id()));
    path.with_file_name(name)
}

/// Whether the file was to become a history file. Earlier builds wrote `part-1.new` for `part-1.parquet`, and before
/// that `part-1.parquet#1`.
fn is_leftover(path: &str) -> bool {
    let Some((folder, name)) = path.rsplit_once('/') else {
        return false;
    };
    let finished = match name.strip_suffix(UNFINISHED_SUFFIX) {
        Some(draft) => match draft.strip_prefix('.') {
            Some(named) => named.rsplit_once('.').map(|(file, _)| file.to_owned()),
            None => Some(format!("{draft}.parquet")),
        },
        None => {
            let numbered = name.rsplit_once('#');
            let numbered = numbered.filter(|(_, number)| number.parse::<u64>().is_ok());
            numbered.map(|(file, _)| file.to_owned())
        }
    };
    finished.is_some_and(|file| Place::parse(&format!("{folder}/{file}")).is_some())
}

fn is_unfinished(path: &str) -> bool {
    path.ends_with(UNFINISHED_SUFFIX) || is_leftover(path)
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
        self.find_into(&top, &mut listed)
            .map_err(failed("list", name))?;
        listed.retain(|file| !is_unfinished(&file.name));
        Ok(listed)
    }

    fn remove(&self, name: &str) -> Result<(), ShelfError> {
        let removed = self.files.remove(&self.root.join(name));
        if_there(removed).map_err(failed("remove", name))
    }
}

/// Treats a missing file or folder as empty.
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
    const HOUR_FOLDER: &str = "kind=links/resolution=1s/day=2026-11-20/hour=14";

    /// The root of the tests. A loss of power can lose its name, and the name of the folder above it.
    fn root() -> PathBuf {
        Path::new(ROOT).join("reweave/history")
    }

    fn folder_on(files: &LossyFiles) -> Folder<LossyFiles> {
        Folder::at(files.clone(), &root())
    }

    fn made_on(files: &LossyFiles) -> Result<Folder<LossyFiles>, ShelfError> {
        let folder = folder_on(files);
        folder.make()?;
        Ok(folder)
    }

    fn put(folder: &Folder<LossyFiles>, name: &str) -> Result<(), ShelfError> {
        folder.put(name, Bytes::from_static(b"it"))
    }

    fn is_whole(files: &LossyFiles, name: &str) -> bool {
        let found = folder_on(files).get(name).unwrap();
        found.as_deref() == Some(&b"it"[..])
    }

    /// Power is lost at each operation, also if an earlier process was killed there and left folders that it did not
    /// sync.
    #[test]
    fn written_file_survives_power_loss() {
        for operation in 1.. {
            let files = LossyFiles::exact();
            files.die_at(operation);
            let is_written = made_on(&files).and_then(|it| put(&it, NAME)).is_ok();
            files.revive();
            let again = made_on(&files).unwrap();
            let others = ["kind=links/hour=14/part-2.parquet", "part-3.parquet"];
            for other in others {
                put(&again, other).unwrap();
            }
            // Unsynced names are lost.
            files.lose_power_but(1);
            for name in others.into_iter().chain(is_written.then_some(NAME)) {
                assert!(is_whole(&files, name), "{operation}: {name}");
            }
            if is_written {
                assert!(operation > 12, "{operation} operations are too few");
                return;
            }
        }
    }

    /// A folder at any level is removed while the coordinator runs. Later writes are not lost.
    #[test]
    fn removed_folder_is_made_again() {
        let all = [
            root(),
            root().join("kind=links"),
            root().join("kind=links/hour=14"),
        ];
        for removed in all {
            let files = LossyFiles::exact();
            let folder = made_on(&files).unwrap();
            put(&folder, NAME).unwrap();
            files.remove_folder(&removed);
            let names = ["kind=links/hour=15/part-1.parquet", NAME];
            for name in names {
                put(&folder, name).unwrap();
            }
            files.lose_power();
            for name in names {
                assert!(is_whole(&files, name), "{name} in {}", removed.display());
            }
        }
    }

    #[test]
    fn synced_folders_are_bounded() {
        let files = LossyFiles::exact();
        let folder = made_on(&files).unwrap();
        for hour in 0..=MAX_SYNCED_FOLDERS {
            put(&folder, &format!("hour={hour}/part-1.parquet")).unwrap();
        }
        assert_eq!(lock(&folder.synced).len(), 1);
    }

    /// The other writer may be writing the same file.
    #[test]
    fn writers_share_no_draft() {
        let files = LossyFiles::exact();
        let folder = made_on(&files).unwrap();
        let drafts = [(), ()].map(|()| draft_of(&root().join(NAME)));
        assert_ne!(drafts[0], drafts[1]);
        for draft in drafts {
            let name = draft.strip_prefix(root()).unwrap().to_str().unwrap();
            put(&folder, name).unwrap();
            assert!(folder.list(None).unwrap().is_empty(), "{name} is listed");
        }
    }

    #[test]
    fn unfinished_file_is_not_listed() {
        let files = LossyFiles::exact();
        let folder = made_on(&files).unwrap();
        put(&folder, NAME).unwrap();
        files.create(&root().join("part-2.new")).unwrap();
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

    /// Leftovers of this build and of two earlier ones are removed. Files that may belong to another program stay.
    #[test]
    fn leftovers_go_and_foreign_files_stay() {
        let files = LossyFiles::exact();
        let folder = made_on(&files).unwrap();
        let part = "part-0000000000000001-00000001-00000000";
        let ours = [
            format!("{HOUR_FOLDER}/.{part}.parquet.7-1.new"),
            format!("{HOUR_FOLDER}/{part}.new"),
            format!("{HOUR_FOLDER}/{part}.parquet#1"),
        ];
        let others = [
            format!("{HOUR_FOLDER}/{part}.parquet"),
            format!("{HOUR_FOLDER}/{part}.parquet#a"),
            format!("{HOUR_FOLDER}/notes#1"),
            format!("{HOUR_FOLDER}/notes.new"),
            format!("kind=dogs/{part}.parquet#1"),
            format!("{part}.parquet#1"),
            ".shard-0-of-2.jsonl.7-1.new".to_owned(),
        ];
        for name in ours.iter().chain(&others) {
            put(&folder, name).unwrap();
        }
        folder.reach().unwrap();
        let listed: BTreeSet<_> = folder.list(None).unwrap().into_iter().collect();
        assert!(
            listed.iter().all(|it| !ours.contains(&it.name)),
            "{listed:?}"
        );
        assert!(
            ours.iter().all(|name| is_whole(&files, name)),
            "reading removes none"
        );
        made_on(&files).unwrap();
        let left = |names: &[String]| names.iter().filter(|it| is_whole(&files, it)).count();
        assert_eq!([left(&ours), left(&others)], [0, others.len()]);
    }
}
