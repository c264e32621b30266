//! The files of this machine.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;

use crate::{Entry, FileHandle, FileSystem};

const ROOT_UID: u32 = 0;

#[derive(Debug, Clone, Copy)]
pub struct LocalFiles;

impl FileSystem for LocalFiles {
    type File = File;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    /// Opens the file without `O_APPEND`: with it, [`FileHandle::overwrite`] would write behind the end on Linux (pwrite(2), bugs).
    fn open(&self, path: &Path) -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        File::create(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<File> {
        File::create_new(path)
    }

    /// Follows no symbolic link: root may write in a folder where a user has placed one.
    fn create_with_mode(&self, path: &Path, mode: u32) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        // The umask has no effect on this call.
        file.set_permissions(Permissions::from_mode(mode))?;
        let folder = fs::metadata(path.parent().unwrap_or(Path::new(".")))?;
        if is_given_away(file.metadata()?.uid(), folder.uid()) {
            // Some file systems do not allow this even to root. There, the file stays root's.
            let _ = fchown(&file, Some(folder.uid()), Some(folder.gid()));
        }
        Ok(file)
    }

    fn append(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    }

    fn entry(&self, path: &Path) -> io::Result<Entry> {
        let about = fs::metadata(path)?;
        Ok(if about.is_dir() {
            Entry::Folder
        } else {
            Entry::File { bytes: about.len() }
        })
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    /// An empty path stands for the current folder: it is the parent of a bare name.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let is_bare = folder.as_os_str().is_empty();
        let folder = if is_bare { Path::new(".") } else { folder };
        File::open(folder)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> Option<u64> {
        let found = statvfs(path).ok()?;
        Some(
            found
                .blocks_available()
                .saturating_mul(found.fragment_size()),
        )
    }
}

/// Whether a new file with this owner is given to the owner of its folder.
fn is_given_away(file_uid: u32, folder_uid: u32) -> bool {
    file_uid == ROOT_UID && folder_uid != ROOT_UID
}

impl FileHandle for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, 0)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(drop)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn reserve(&mut self, from: u64, length: u64) -> io::Result<()> {
        let [from, length] = [from, length].map(|it| i64::try_from(it).unwrap_or(i64::MAX));
        let keeping = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        Ok(fallocate(&*self, keeping, from, length)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    use std::io::Write;

    use nix::errno::Errno;

    use super::*;

    #[test]
    fn new_file_has_its_mode() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mode) in [("key", 0o600), ("certificate", 0o644)] {
            let path = folder.path().join(name);
            let file = LocalFiles.create_with_mode(&path, mode).unwrap();
            let about = file.metadata().unwrap();
            assert_eq!(about.permissions().mode() & 0o777, mode);
            assert_eq!(about.uid(), fs::metadata(folder.path()).unwrap().uid());
        }
    }

    #[test]
    fn new_file_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let [link, target] = ["link", "target"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let refused = LocalFiles.create_with_mode(&link, 0o600).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert!(!target.exists());
    }

    #[test]
    fn only_root_gives_files_away() {
        let users = [(0, 1000), (0, 0), (1000, 1000), (1000, 0), (1000, 1001)];
        let given = users.map(|(file, folder)| is_given_away(file, folder));
        assert_eq!(given, [true, false, false, false, false]);
    }

    #[test]
    fn reserve_is_no_part_of_file() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut file = LocalFiles.create(log.path()).unwrap();
        file.write_all(b"an entry").unwrap();
        file.reserve(8, 1 << 20).unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), b"an entry");
        file.write_all(b" more").unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), b"an entry more");
    }

    #[test]
    fn next_append_goes_behind_cut() {
        let log = tempfile::NamedTempFile::new().unwrap();
        fs::write(log.path(), "an entry, and half of").unwrap();
        let mut file = LocalFiles.open(log.path()).unwrap();
        file.truncate(8).unwrap();
        file.write_all(b" more").unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), b"an entry more");
    }

    #[test]
    fn opened_file_is_written_in_place() {
        let log = tempfile::NamedTempFile::new().unwrap();
        fs::write(log.path(), "an entry").unwrap();
        let mut file = LocalFiles.open(log.path()).unwrap();
        file.overwrite(b"no").unwrap();
        file.write_all(b" more").unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), b"no entry more");
    }

    #[test]
    fn folder_of_bare_name_is_synced() {
        let folder = Path::new("log").parent().unwrap();
        LocalFiles.sync_folder(folder).unwrap();
    }

    #[test]
    fn missing_space_has_error_kinds() {
        let kinds = [Errno::ENOSPC, Errno::EDQUOT].map(|it| io::Error::from(it).kind());
        assert_eq!(kinds, [StorageFull, QuotaExceeded]);
        let log = tempfile::NamedTempFile::new().unwrap();
        let refused = File::open(log.path()).unwrap().reserve(0, 1 << 20);
        let kind = refused.unwrap_err().kind();
        assert!(![StorageFull, QuotaExceeded].contains(&kind), "{kind:?}");
    }
}
