//! The disk as the product sees it, and what tests do to it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use reweave_files::{Entry, FileHandle, FileSystem};

use crate::chance::Chance;
use crate::content::{FileContent, TrackedBytes};
use crate::platter::{Platter, UNLIMITED_BYTES};

/// This folder always exists, as a mount point does, and so does the folder of a bare name. Another root is lost with its name:
/// tests of who makes the root have one below this.
pub const ROOT: &str = "data";

/// Cheap to clone: all clones are one disk.
#[derive(Debug, Clone)]
pub struct LossyFiles(Arc<Mutex<Platter>>);

#[derive(Debug)]
pub struct LossyFile {
    disk: LossyFiles,
    number: u64,
    /// Opened by [`FileSystem::append`].
    appends: bool,
}

/// While this value lives, all operations on the disk wait.
#[derive(Debug)]
pub struct HangGuard<'d>(MutexGuard<'d, Platter>);

impl HangGuard<'_> {
    /// Lets all waiting operations continue.
    pub fn end(self) {
        drop(self.0);
    }
}

impl LossyFiles {
    /// What a loss of power leaves is drawn.
    pub fn new(chance: Chance) -> Self {
        Self::on(Platter::new(Some(chance)))
    }

    /// What a loss of power leaves is for the test to say, by [`lose_power_but`](Self::lose_power_but). An operation amid which
    /// power is lost has not happened; of a write, half has.
    pub fn exact() -> Self {
        Self::on(Platter::new(None))
    }

    /// Below `count`, which is not 0, from the chance of this disk.
    pub fn draw(&self, count: usize) -> usize {
        let mut platter = self.platter();
        platter.chance.as_mut().map_or(0, |it| it.below(count))
    }

    /// It loses power in the midst of the operation that is the n-th from here, from 1.
    pub fn die_at(&self, operation: u64) {
        let mut platter = self.platter();
        platter.dies_at = Some(platter.operations + operation);
    }

    /// In the midst of one of the next operations, as many as this.
    pub fn die_within(&self, operations: usize) {
        self.die_at(1 + self.draw(operations) as u64);
    }

    pub fn is_dead(&self) -> bool {
        !self.platter().has_power
    }

    /// All that was written is there, as after a process was killed.
    pub fn revive(&self) {
        let mut platter = self.platter();
        (platter.dies_at, platter.has_power) = (None, true);
    }

    /// Loses power and restores it.
    pub fn lose_power(&self) {
        self.platter().lose_power();
    }

    /// Loses power and restores it. At most this many bytes survive of each file's unsynced appends. Unsynced names
    /// survive if their number is even.
    pub fn lose_power_but(&self, kept_bytes: usize) {
        let keeps_names = kept_bytes.is_multiple_of(2);
        self.platter().restart(kept_bytes, keeps_names);
    }

    /// Loses power and restores it. All that was written survives, synced or not. For a disk that is [`exact`](Self::exact).
    pub fn lose_power_after_all(&self) {
        self.platter().restart(UNLIMITED_BYTES as usize, true);
    }

    /// Operations wait until the guard is dropped.
    pub fn hang(&self) -> HangGuard<'_> {
        HangGuard(self.platter())
    }

    /// As an administrator removes a folder, with all that lies in it.
    pub fn remove_folder(&self, folder: &Path) {
        self.platter().remove_folder(folder);
    }

    /// One bit of what is synced in this file, if there is any.
    pub fn flip(&self, path: &Path) {
        self.platter().flip(path);
    }

    /// The next write goes to a wrong place, if it comes before power is lost.
    pub fn misdirect(&self) {
        self.platter().misdirects = true;
    }

    /// Some file systems keep no room ahead of a file.
    pub fn keep_ahead(&self, keeps_ahead: bool) {
        self.platter().keeps_ahead = keeps_ahead;
    }

    /// Others leave these bytes free.
    pub fn fill_up(&self, left: u64) {
        let mut platter = self.platter();
        platter.capacity = platter.used() + left;
    }

    pub fn make_room(&self) {
        self.platter().capacity = UNLIMITED_BYTES;
    }

    /// Syncs of files fail from now on, or no longer: `EIO`, and what was not synced is lost.
    pub fn fail_syncs(&self, fail: bool) {
        self.platter().syncs_fail = fail;
    }

    /// Nothing goes wrong from now on; what has gone wrong stays.
    pub fn mend(&self) {
        let mut platter = self.platter();
        (platter.dies_at, platter.misdirects) = (None, false);
        platter.capacity = UNLIMITED_BYTES;
        platter.syncs_fail = false;
    }

    /// The result of `look` for the content of a file. None if there is no such file.
    pub fn look<T>(&self, path: &Path, look: impl FnOnce(&TrackedBytes) -> T) -> Option<T> {
        self.platter().named(path).map(|content| look(&content.now))
    }

    /// What of a file surely survives a loss of power.
    pub fn synced(&self, path: &Path) -> Option<Vec<u8>> {
        let platter = self.platter();
        Some(platter.named(path)?.synced.actual.clone())
    }

    /// A start has taken what it found for what was written.
    pub fn believe(&self) {
        self.platter().contents().for_each(FileContent::believe);
    }

    fn on(platter: Platter) -> Self {
        Self(Arc::new(Mutex::new(platter)))
    }

    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().expect("no operation panics")
    }

    fn file(&self, number: u64) -> LossyFile {
        LossyFile {
            disk: self.clone(),
            number,
            appends: false,
        }
    }
}

impl FileSystem for LossyFiles {
    type File = LossyFile;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut platter = self.platter();
        let number = platter.find_file(path)?;
        Ok(platter.file(number)?.now.actual.clone())
    }

    fn open(&self, path: &Path) -> io::Result<LossyFile> {
        let number = self.platter().find_file(path)?;
        Ok(self.file(number))
    }

    fn create(&self, path: &Path) -> io::Result<LossyFile> {
        let number = self.platter().create(path)?;
        Ok(self.file(number))
    }

    fn create_new(&self, path: &Path) -> io::Result<LossyFile> {
        let number = self.platter().create_new(path)?;
        Ok(self.file(number))
    }

    fn append(&self, path: &Path) -> io::Result<LossyFile> {
        let opened = match self.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_new(path),
            opened => opened,
        };
        opened.map(|file| LossyFile {
            appends: true,
            ..file
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.platter().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.platter().remove(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.platter().list(folder)
    }

    fn entry(&self, path: &Path) -> io::Result<Entry> {
        self.platter().entry(path)
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.platter().make_folder(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.platter().sync_folder(folder)
    }

    fn free_bytes(&self, _: &Path) -> Option<u64> {
        Some(self.platter().free())
    }
}

impl io::Write for LossyFile {
    /// What fails may be there in part.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut platter = self.disk.platter();
        platter.write(self.number, None, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileHandle for LossyFile {
    fn length(&self) -> io::Result<u64> {
        let mut platter = self.disk.platter();
        platter.expect_power()?;
        Ok(platter.file(self.number)?.now.expected.len() as u64)
    }

    /// Linux would write behind the end of a file that was opened for that, and report success.
    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.appends {
            let refusal = "a file that was opened to append to is overwritten";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, refusal));
        }
        let mut platter = self.disk.platter();
        platter.write(self.number, Some(0), bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut platter = self.disk.platter();
        platter.truncate(self.number, length)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let mut platter = self.disk.platter();
        platter.sync(self.number)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn reserve(&mut self, from: u64, length: u64) -> io::Result<()> {
        let mut platter = self.disk.platter();
        platter.reserve(self.number, from + length)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Write;

    use super::*;

    const NAME: &str = "log";
    /// Where a bare name lies.
    const BARE_NAME_FOLDER: &str = "";

    /// What is read after a loss of power, by seed, of a file that was written before this was done to it.
    fn left_over(what: impl Fn(&LossyFiles, &mut LossyFile)) -> BTreeSet<Option<Vec<u8>>> {
        let lives = (0..200).map(|seed| {
            let disk = LossyFiles::new(Chance::of(seed));
            let path = Path::new(NAME);
            let mut file = disk.create(path).expect("there is room");
            file.write_all(&[1; 600]).expect("there is room");
            file.sync_all().expect("there is power");
            disk.sync_folder(Path::new(BARE_NAME_FOLDER))
                .expect("there is power");
            what(&disk, &mut file);
            disk.lose_power();
            disk.read(path).ok()
        });
        lives.collect()
    }

    fn append(file: &mut LossyFile) {
        file.write_all(&[2; 600]).expect("there is room");
    }

    #[test]
    fn synced_write_survives() {
        let whole = [&[1_u8; 600][..], &[2; 600]].concat();
        let left = left_over(|_, file| {
            append(file);
            file.sync_data().expect("there is power");
        });
        assert_eq!(left, BTreeSet::from([Some(whole)]));
    }

    #[test]
    fn unsynced_write_is_torn() {
        let left = left_over(|_, file| append(file));
        let kept = |it: &Option<Vec<u8>>| it.as_deref().is_some_and(|it| it[..600] == [1; 600]);
        assert!(left.iter().all(kept));
        let lengths: BTreeSet<_> = left.iter().flatten().map(Vec::len).collect();
        assert!(lengths.contains(&600) && lengths.contains(&1200));
        assert!(lengths.len() > 20, "{lengths:?}");
        // The first sector of it is missing, and the second is there.
        let hole = [&[1_u8; 600][..], &[0; 424], &[2; 176]].concat();
        assert!(left.contains(&Some(hole)));
    }

    #[test]
    fn names_survive_with_their_folder() {
        let moved = Path::new("elsewhere");
        let rename = |disk: &LossyFiles| {
            disk.rename(Path::new(NAME), moved).expect("it is there");
        };
        let whole = Some(vec![1; 600]);
        let left = left_over(|disk, _| rename(disk));
        assert_eq!(left, BTreeSet::from([None, whole]));
        let left = left_over(|disk, _| {
            rename(disk);
            disk.sync_folder(Path::new(BARE_NAME_FOLDER))
                .expect("there is power");
        });
        assert_eq!(left, BTreeSet::from([None]));
    }

    /// With no chance, and the folder itself has a name, too.
    #[test]
    fn lost_folder_takes_its_files() {
        let folder = Path::new(ROOT).join("audit");
        let path = folder.join("1");
        for (synced_above, kept_bytes, is_there) in
            [(true, 1, true), (false, 1, false), (false, 2, true)]
        {
            let disk = LossyFiles::exact();
            disk.make_folder(&folder).expect("there is power");
            let mut file = disk.append(&path).expect("there is power");
            append(&mut file);
            disk.sync_folder(&folder).expect("there is power");
            if synced_above {
                disk.sync_folder(Path::new(ROOT)).expect("there is power");
            }
            disk.lose_power_but(kept_bytes);
            let left = disk.read(&path).ok();
            assert_eq!(left, is_there.then(|| vec![2; kept_bytes]));
            assert_eq!(disk.list(&folder).is_ok(), is_there);
        }
    }

    /// Each level is an operation, which power can be lost amid.
    #[test]
    fn folders_are_made_level_by_level() {
        let folder = Path::new(ROOT).join("audit/old");
        let made = (1..=3).map(|operation| {
            let disk = LossyFiles::exact();
            disk.die_at(operation);
            let is_made = disk.make_folder(&folder).is_ok();
            disk.revive();
            let is_begun = disk.list(folder.parent().expect("it lies below")).is_ok();
            [is_begun, is_made]
        });
        let made: Vec<_> = made.collect();
        assert_eq!(made, [[false, false], [true, false], [true, true]]);
    }

    #[test]
    fn removed_folder_does_not_return() {
        let folder = Path::new(ROOT).join("audit");
        let path = folder.join("1");
        let disk = LossyFiles::exact();
        disk.make_folder(&folder).expect("there is power");
        append(&mut disk.append(&path).expect("there is power"));
        disk.sync_folder(&folder).expect("there is power");
        disk.sync_folder(Path::new(ROOT)).expect("there is power");
        disk.remove_folder(&folder);
        for _ in 0..2 {
            let kinds = [disk.read(&path).map(drop), disk.list(&folder).map(drop)]
                .map(|it| it.map_err(|error| error.kind()));
            assert_eq!(kinds, [Err(io::ErrorKind::NotFound); 2]);
            disk.lose_power();
        }
    }

    /// With no chance, all of it is lost or nothing is.
    #[test]
    fn exact_outcomes_are_complementary() {
        let path = Path::new(NAME);
        let left = [LossyFiles::lose_power, LossyFiles::lose_power_after_all].map(|lose| {
            let disk = LossyFiles::exact();
            let mut file = disk.create(path).expect("there is room");
            file.write_all(&[1]).expect("there is room");
            file.sync_all().expect("there is power");
            disk.sync_folder(Path::new(BARE_NAME_FOLDER))
                .expect("there is power");
            append(&mut file);
            let mut other = disk.create(Path::new("other")).expect("there is room");
            append(&mut other);
            lose(&disk);
            let whole = disk.read(path).expect("it is there");
            (whole.len(), disk.read(Path::new("other")).is_ok())
        });
        assert_eq!(left, [(1, false), (601, true)]);
    }

    /// pwrite(2) writes behind the end of such a file.
    #[test]
    fn appended_file_is_not_overwritten() {
        let disk = LossyFiles::exact();
        let path = Path::new(NAME);
        let mut file = disk.append(path).expect("there is room");
        append(&mut file);
        for mut opened in [file, disk.append(path).expect("it is there")] {
            let refused = opened.overwrite(&[3]).expect_err("it appends");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        }
        let mut in_place = disk.open(path).expect("it is there");
        in_place.overwrite(&[3]).expect("there is power");
        assert_eq!(disk.read(path).expect("it is there")[..2], [3, 2]);
    }

    #[test]
    fn new_file_replaces_none() {
        let disk = LossyFiles::exact();
        let path = Path::new(NAME);
        append(&mut disk.create_new(path).expect("there is room"));
        let refused = disk.create_new(path).expect_err("it is taken");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(disk.read(path).expect("it is there"), [2; 600]);
    }

    #[test]
    fn failed_sync_loses_what_waited() {
        let disk = LossyFiles::exact();
        let path = Path::new(NAME);
        let mut file = disk.create(path).expect("there is room");
        append(&mut file);
        disk.fail_syncs(true);
        assert!(file.sync_data().is_err());
        disk.fail_syncs(false);
        file.sync_data().expect("it answers");
        assert_eq!(disk.read(path).expect("it is there"), [0; 0]);
    }

    #[test]
    fn misdirected_write_hits_one_alike() {
        let path = Path::new(NAME);
        let hits = (0..200).filter(|seed| {
            let disk = LossyFiles::new(Chance::of(*seed));
            let mut file = disk.create(path).expect("there is room");
            for length in [700, 48, 64, 48] {
                file.write_all(&vec![1; length]).expect("there is room");
            }
            disk.misdirect();
            file.write_all(&[2; 48]).expect("there is room");
            let found = disk.read(path).expect("it is there");
            let at = found.iter().position(|byte| *byte == 2);
            [Some(700), Some(700 + 48 + 64)].contains(&at)
        });
        let hits = hits.count();
        assert!((50..150).contains(&hits), "{hits} of 200");
    }
}
