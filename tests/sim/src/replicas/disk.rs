//! A disk that fails: the log's own code of the product writes to it. A full one takes a part of a write.
//!
//! A loss of power leaves of what was not synced some in part and some not at all: sectors of writes, lengths, names in
//! the folder, in any order. Bits flip in what was synced, and writes go to a wrong place. A file has its content twice: as
//! it is found and as it was meant, so that damage is distinguished from what a loss of power may do.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use reweave_replica::{
    Batch, Compaction, Disk, DiskFile, Journal, LogError, Written, write_compacted,
};

use crate::chance::Chance;

pub const LOG_NAME: &str = "log";
const REACHED_NAME: &str = "reached";
/// What disks write as a whole.
const SECTOR_BYTES: usize = 512;
/// Behind the end of a file, where a write to the wrong place may land.
const MAX_STRAY_SECTORS: usize = 256;
/// Bytes of a disk that is not filled up.
const UNLIMITED_BYTES: u64 = 1 << 30;
/// A compacted file is written after fewer polls than this.
const MAX_COMPACTION_POLLS: usize = 8;

/// Cheap to clone: all clones are one disk.
#[derive(Debug, Clone)]
pub struct SimulatedDisk(Rc<RefCell<Platter>>);

#[derive(Debug)]
pub struct SimulatedFile {
    disk: SimulatedDisk,
    number: u64,
}

/// Takes a while, and then writes all at once.
#[derive(Debug)]
pub struct SimulatedCompaction {
    disk: SimulatedDisk,
    log: PathBuf,
    whole: Batch,
    polls_left: Cell<usize>,
}

/// What becomes of names, all at once.
type Naming = Vec<(PathBuf, Option<u64>)>;

#[derive(Debug)]
struct Platter {
    chance: Chance,
    files: BTreeMap<u64, FileContent>,
    last_file: u64,
    names: BTreeMap<PathBuf, u64>,
    synced_names: BTreeMap<PathBuf, u64>,
    unsynced_names: Vec<Naming>,
    capacity: u64,
    keeps_ahead: bool,
    /// That change something, so far.
    operations: u64,
    /// In the midst of this one it loses power.
    dies_at: Option<u64>,
    has_power: bool,
    /// The next write goes to a wrong place.
    misdirects: bool,
}

#[derive(Debug, Default)]
struct FileContent {
    /// As it is read.
    now: Bytes,
    synced: Bytes,
    unsynced: Vec<Change>,
    /// How long writes were, by where they began.
    writes: BTreeMap<usize, usize>,
    reserved_until: u64,
}

#[derive(Debug, Clone, Default)]
struct Bytes {
    found: Vec<u8>,
    meant: Vec<u8>,
}

#[derive(Debug)]
enum Change {
    Write {
        at: usize,
        /// Somewhere else, where it is misdirected.
        lands: usize,
        bytes: Vec<u8>,
    },
    Truncate(usize),
}

impl SimulatedDisk {
    pub fn new(mut chance: Chance) -> Self {
        let keeps_ahead = chance.happens(0.7);
        Self(Rc::new(RefCell::new(Platter {
            chance,
            files: BTreeMap::new(),
            last_file: 0,
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            unsynced_names: Vec::new(),
            capacity: UNLIMITED_BYTES,
            keeps_ahead,
            operations: 0,
            dies_at: None,
            has_power: true,
            misdirects: false,
        })))
    }

    /// It loses power in the midst of the operation that is the n-th from here, from 1.
    pub fn die_at(&self, operation: u64) {
        let mut platter = self.0.borrow_mut();
        platter.dies_at = Some(platter.operations + operation);
    }

    /// In the midst of one of the next operations, as many as this.
    pub fn die_within(&self, operations: usize) {
        let operation = 1 + self.0.borrow_mut().chance.below(operations);
        self.die_at(operation as u64);
    }

    pub fn is_dead(&self) -> bool {
        !self.0.borrow().has_power
    }

    /// Power is lost, and comes back.
    pub fn lose_power(&self) {
        self.0.borrow_mut().lose_power();
    }

    /// One bit, of the log or of how far it had come, if there is any.
    pub fn flip(&self) {
        self.0.borrow_mut().flip();
    }

    /// The next write goes to a wrong place, if it comes before power is lost.
    pub fn misdirect(&self) {
        self.0.borrow_mut().misdirects = true;
    }

    /// Some file systems keep no room ahead of a file.
    pub fn keep_ahead(&self, keeps_ahead: bool) {
        self.0.borrow_mut().keeps_ahead = keeps_ahead;
    }

    /// Others leave these bytes free.
    pub fn fill_up(&self, left: u64) {
        let mut platter = self.0.borrow_mut();
        platter.capacity = platter.used() + left;
    }

    pub fn make_room(&self) {
        self.0.borrow_mut().capacity = UNLIMITED_BYTES;
    }

    /// Nothing goes wrong from now on; what has gone wrong stays.
    pub fn mend(&self) {
        let mut platter = self.0.borrow_mut();
        (platter.dies_at, platter.misdirects) = (None, false);
        platter.capacity = UNLIMITED_BYTES;
    }

    /// Whether something that counts is not as it was written. What a loss of power left behind the last whole write
    /// counts for nothing.
    pub fn is_damaged(&self) -> bool {
        let platter = self.0.borrow();
        let log = platter.named(LOG_NAME).is_some_and(|log| {
            let whole = Journal::read(&log.meant).map(|journal| journal.whole_bytes);
            let whole = whole.unwrap_or(log.meant.len());
            log.found.get(..whole) != log.meant.get(..whole)
        });
        let reached = platter.named(REACHED_NAME).is_some_and(Bytes::differs);
        log || reached
    }

    /// Whether all is as it was written, to the last byte.
    pub fn is_intact(&self) -> bool {
        let platter = self.0.borrow();
        let mut files = [LOG_NAME, REACHED_NAME].into_iter();
        !files.any(|name| platter.named(name).is_some_and(Bytes::differs))
    }

    /// A start has taken what it found for what was written.
    pub fn believe(&self) {
        let mut platter = self.0.borrow_mut();
        for content in platter.files.values_mut() {
            for bytes in [&mut content.now, &mut content.synced] {
                bytes.meant.clone_from(&bytes.found);
            }
        }
    }
}

impl Platter {
    fn named(&self, name: &str) -> Option<&Bytes> {
        let number = self.names.get(Path::new(name))?;
        Some(&self.files.get(number)?.now)
    }

    fn used(&self) -> u64 {
        self.files.values().map(FileContent::allocated).sum()
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.used())
    }

    /// Power may be lost in the midst of an operation: it may have happened then, and fails all the same.
    fn begin(&mut self) -> io::Result<()> {
        self.expect_power()?;
        self.operations += 1;
        self.has_power = self.dies_at != Some(self.operations);
        Ok(())
    }

    fn expect_power(&self) -> io::Result<()> {
        if self.has_power {
            Ok(())
        } else {
            Err(io::Error::other("the power is gone"))
        }
    }

    fn file(&mut self, number: u64) -> io::Result<&mut FileContent> {
        let file = self.files.get_mut(&number);
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        self.expect_power()?;
        let number = self.names.get(path).copied();
        number.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn name(&mut self, naming: Naming) {
        apply(&mut self.names, &naming);
        self.unsynced_names.push(naming);
    }

    fn create(&mut self, path: &Path) -> io::Result<u64> {
        let before = self.names.get(path).copied();
        self.begin()?;
        let number = before.unwrap_or(self.last_file + 1);
        if before.is_none() {
            self.last_file = number;
            self.files.insert(number, FileContent::default());
            self.name(vec![(path.to_owned(), Some(number))]);
        } else {
            self.file(number)?.change(Change::Truncate(0));
        }
        self.expect_power()?;
        Ok(number)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let number = self.find(from)?;
        self.begin()?;
        self.name(vec![(from.to_owned(), None), (to.to_owned(), Some(number))]);
        self.expect_power()
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        self.begin()?;
        self.name(vec![(path.to_owned(), None)]);
        self.expect_power()
    }

    fn sync_folder(&mut self) -> io::Result<()> {
        self.begin()?;
        self.expect_power()?;
        self.synced_names.clone_from(&self.names);
        self.unsynced_names.clear();
        self.forget_unnamed();
        Ok(())
    }

    /// Files without a name take no room.
    fn forget_unnamed(&mut self) {
        let names = self.names.values().chain(self.synced_names.values());
        let named: BTreeSet<_> = names.copied().collect();
        self.files.retain(|number, _| named.contains(number));
    }

    /// Behind the end, unless it is said where. Without room for all of it, there may be a part.
    fn write(&mut self, number: u64, at: Option<usize>, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let (length, free) = (bytes.len(), self.free());
        let file = self.file(number)?;
        let at = at.unwrap_or(file.now.meant.len());
        let room = file.room(at, free);
        if room < length {
            return self.write_part(number, at, &bytes[..room]);
        }
        let drawn = self.misdirects.then(|| self.chance.number());
        let file = self.file(number)?;
        let lands = drawn.map_or(at, |drawn| file.wrong_place([at, length], drawn as usize));
        let bytes = bytes.to_vec();
        file.change(Change::Write { at, lands, bytes });
        self.misdirects = false;
        self.expect_power()
    }

    fn write_part(&mut self, number: u64, at: usize, fitting: &[u8]) -> io::Result<()> {
        let taken = self.chance.below(fitting.len() + 1);
        let bytes = fitting[..taken].to_vec();
        let lands = at;
        self.file(number)?
            .change(Change::Write { at, lands, bytes });
        self.expect_power()?;
        Err(io::ErrorKind::StorageFull.into())
    }

    fn truncate(&mut self, number: u64, length: u64) -> io::Result<()> {
        self.begin()?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.file(number)?.change(Change::Truncate(length));
        self.expect_power()
    }

    fn sync(&mut self, number: u64) -> io::Result<()> {
        self.begin()?;
        self.expect_power()?;
        self.file(number)?.sync();
        Ok(())
    }

    fn reserve(&mut self, number: u64, until: u64) -> io::Result<()> {
        if !self.keeps_ahead {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.begin()?;
        let free = self.free();
        let file = self.file(number)?;
        if until > file.allocated() + free {
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.reserved_until = file.reserved_until.max(until);
        self.expect_power()
    }

    fn lose_power(&mut self) {
        for naming in mem::take(&mut self.unsynced_names) {
            if self.chance.happens(0.5) {
                apply(&mut self.synced_names, &naming);
            }
        }
        self.names.clone_from(&self.synced_names);
        self.forget_unnamed();
        for file in self.files.values_mut() {
            file.lose_power(&mut self.chance);
        }
        (self.dies_at, self.has_power, self.misdirects) = (None, true, false);
    }

    fn flip(&mut self) {
        let name = *self
            .chance
            .one_of(&[LOG_NAME, LOG_NAME, LOG_NAME, REACHED_NAME]);
        let Some(number) = self.synced_names.get(Path::new(name)) else {
            return;
        };
        let Some(file) = self.files.get_mut(number) else {
            return;
        };
        let bits = file.synced.found.len() * 8;
        if bits > 0 {
            file.flip(self.chance.below(bits));
        }
    }
}

fn apply(names: &mut BTreeMap<PathBuf, u64>, naming: &[(PathBuf, Option<u64>)]) {
    for (path, number) in naming {
        match number {
            Some(number) => names.insert(path.clone(), *number),
            None => names.remove(path),
        };
    }
}

impl FileContent {
    fn allocated(&self) -> u64 {
        self.reserved_until.max(self.now.meant.len() as u64)
    }

    /// How many bytes can be written from here on.
    fn room(&self, at: usize, free: u64) -> usize {
        let room = (self.allocated() + free).saturating_sub(at as u64);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    fn change(&mut self, change: Change) {
        match &change {
            // What was kept behind the end is free again, too.
            Change::Truncate(length) => {
                self.writes.retain(|at, _| at < length);
                self.reserved_until = *length as u64;
            }
            Change::Write { at, bytes, .. } => {
                self.writes.insert(*at, bytes.len());
            }
        }
        self.now.change(&change);
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
        for change in mem::take(&mut self.unsynced) {
            self.synced.change(&change);
        }
    }

    fn lose_power(&mut self, chance: &mut Chance) {
        for change in mem::take(&mut self.unsynced) {
            match change {
                Change::Truncate(length) => {
                    if chance.happens(0.5) {
                        self.synced.truncate(length);
                    }
                }
                Change::Write { at, lands, bytes } => {
                    self.synced.write_in_part([at, lands], &bytes, chance);
                }
            }
        }
        self.now.clone_from(&self.synced);
    }

    /// What is in memory is what was read from there.
    fn flip(&mut self, bit: usize) {
        for bytes in [&mut self.synced, &mut self.now] {
            if let Some(byte) = bytes.found.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// Where an older write began, one as long if there is any: there it passes for that, unless batches say where they
    /// belong. Or off by whole sectors, as a block is that goes to another address.
    fn wrong_place(&self, [at, length]: [usize; 2], drawn: usize) -> usize {
        let older: Vec<_> = self.writes.range(..at).collect();
        let alike = older.iter().filter(|(_, other)| **other == length);
        let alike: Vec<_> = alike.copied().collect();
        let begins = if alike.is_empty() { &older } else { &alike };
        match begins.get(drawn / 2 % begins.len().max(1)) {
            Some((begin, _)) if drawn.is_multiple_of(2) => **begin,
            _ => self.sector_away(at, drawn),
        }
    }

    fn sector_away(&self, at: usize, drawn: usize) -> usize {
        let sectors = self.now.meant.len() / SECTOR_BYTES;
        // The last of them lies behind the end, so far that no write to come reaches it before a start: a torn one over it
        // would look like any torn write.
        let sectors = (0..sectors).chain([sectors + MAX_STRAY_SECTORS]);
        let places = sectors.map(|sector| sector * SECTOR_BYTES + at % SECTOR_BYTES);
        let wrong: Vec<_> = places.filter(|place| *place != at).collect();
        wrong[drawn % wrong.len()]
    }
}

impl Bytes {
    fn differs(&self) -> bool {
        self.found != self.meant
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Truncate(length) => self.truncate(*length),
            Change::Write { at, lands, bytes } => self.write([*at, *lands], bytes),
        }
    }

    fn truncate(&mut self, length: usize) {
        self.meant.truncate(length);
        self.found.truncate(length);
    }

    /// What was never written reads as zeros.
    fn lengthen(&mut self, [meant, found]: [usize; 2]) {
        self.meant.resize(meant.max(self.meant.len()), 0);
        self.found.resize(found.max(self.found.len()), 0);
    }

    fn write(&mut self, [at, lands]: [usize; 2], bytes: &[u8]) {
        let ends = [at, lands].map(|begin| begin + bytes.len());
        self.lengthen(ends);
        self.meant[at..ends[0]].copy_from_slice(bytes);
        self.found[lands..ends[1]].copy_from_slice(bytes);
    }

    /// It is there or not, or some sectors of it are. What is appended may end anywhere.
    fn write_in_part(&mut self, [at, lands]: [usize; 2], bytes: &[u8], chance: &mut Chance) {
        let is_appended = at >= self.meant.len();
        match chance.below(4) {
            0 => {}
            1 if is_appended => {
                let length = chance.below(bytes.len() + 1);
                self.write([at, lands], &bytes[..length]);
            }
            2 => {
                self.lengthen([at, lands].map(|begin| begin + bytes.len()));
                for (offset, sector) in sectors(at, bytes) {
                    if chance.happens(0.5) {
                        self.write([at, lands].map(|begin| begin + offset), sector);
                    }
                }
            }
            _ => self.write([at, lands], bytes),
        }
    }
}

/// What of this lies in one sector each when it is written here, and how far from its begin.
fn sectors(at: usize, bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut sectors = Vec::new();
    let mut begin = 0;
    while begin < bytes.len() {
        let end = begin + SECTOR_BYTES - (at + begin) % SECTOR_BYTES;
        let end = end.min(bytes.len());
        sectors.push((begin, &bytes[begin..end]));
        begin = end;
    }
    sectors
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;
    type Compaction = SimulatedCompaction;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut platter = self.0.borrow_mut();
        let number = platter.find(path)?;
        Ok(platter.file(number)?.now.found.clone())
    }

    fn open(&self, path: &Path) -> io::Result<SimulatedFile> {
        let number = self.0.borrow().find(path)?;
        let disk = self.clone();
        Ok(SimulatedFile { disk, number })
    }

    fn create(&self, path: &Path) -> io::Result<SimulatedFile> {
        let number = self.0.borrow_mut().create(path)?;
        let disk = self.clone();
        Ok(SimulatedFile { disk, number })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.borrow_mut().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.borrow_mut().remove(path)
    }

    /// There is but one.
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.0.borrow_mut().sync_folder()
    }

    fn free_bytes(&self, _: &Path) -> Option<u64> {
        Some(self.0.borrow().free())
    }

    fn compact(&self, path: &Path, whole: Batch) -> io::Result<SimulatedCompaction> {
        let polls = self.0.borrow_mut().chance.below(MAX_COMPACTION_POLLS);
        Ok(SimulatedCompaction {
            disk: self.clone(),
            log: path.to_owned(),
            whole,
            polls_left: Cell::new(polls),
        })
    }
}

impl DiskFile for SimulatedFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut platter = self.disk.0.borrow_mut();
        platter.write(self.number, None, bytes)
    }

    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut platter = self.disk.0.borrow_mut();
        platter.write(self.number, Some(0), bytes)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut platter = self.disk.0.borrow_mut();
        platter.truncate(self.number, length)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let mut platter = self.disk.0.borrow_mut();
        platter.sync(self.number)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn reserve(&mut self, from: u64, length: u64) -> io::Result<()> {
        let mut platter = self.disk.0.borrow_mut();
        platter.reserve(self.number, from + length)
    }
}

impl Compaction for SimulatedCompaction {
    type File = SimulatedFile;

    fn is_written(&self) -> bool {
        let left = self.polls_left.get();
        self.polls_left.set(left.saturating_sub(1));
        left == 0
    }

    fn finish(self) -> Result<Written<SimulatedFile>, LogError> {
        write_compacted(&self.disk, &self.log, &self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read after a loss of power, by seed, of a file that was written before this was done to it.
    fn left_over(what: impl Fn(&SimulatedDisk, &mut SimulatedFile)) -> BTreeSet<Option<Vec<u8>>> {
        let lives = (0..200).map(|seed| {
            let disk = SimulatedDisk::new(Chance::of(seed));
            let path = Path::new(LOG_NAME);
            let mut file = disk.create(path).expect("there is room");
            file.append(&[1; 600]).expect("there is room");
            file.sync_all().expect("there is power");
            disk.sync_folder(path).expect("there is power");
            what(&disk, &mut file);
            disk.lose_power();
            disk.read(path).ok()
        });
        lives.collect()
    }

    fn append(file: &mut SimulatedFile) {
        file.append(&[2; 600]).expect("there is room");
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
        let rename = |disk: &SimulatedDisk| {
            disk.rename(Path::new(LOG_NAME), moved)
                .expect("it is there");
        };
        let whole = Some(vec![1; 600]);
        let left = left_over(|disk, _| rename(disk));
        assert_eq!(left, BTreeSet::from([None, whole]));
        let left = left_over(|disk, _| {
            rename(disk);
            disk.sync_folder(moved).expect("there is power");
        });
        assert_eq!(left, BTreeSet::from([None]));
    }

    #[test]
    fn damage_differs_from_torn_write() {
        let disk = SimulatedDisk::new(Chance::of(1));
        let mut file = disk.create(Path::new(LOG_NAME)).expect("there is room");
        let batch = Batch {
            is_whole: true,
            ..Batch::default()
        };
        append_batch(&disk, &mut file, &batch);
        disk.sync_folder(Path::new(LOG_NAME))
            .expect("there is power");
        assert!(disk.is_intact() && !disk.is_damaged());
        disk.misdirect();
        append_batch(&disk, &mut file, &Batch::default());
        assert!(!disk.is_intact() && disk.is_damaged());
    }

    fn append_batch(disk: &SimulatedDisk, file: &mut SimulatedFile, batch: &Batch) {
        let end = disk.read(Path::new(LOG_NAME)).expect("it is there").len();
        let bytes = batch.encode(end as u64).expect("it can be written");
        file.append(&bytes).expect("there is room");
        file.sync_data().expect("there is power");
    }

    #[test]
    fn misdirected_write_hits_one_alike() {
        let path = Path::new(LOG_NAME);
        let hits = (0..200).filter(|seed| {
            let disk = SimulatedDisk::new(Chance::of(*seed));
            let mut file = disk.create(path).expect("there is room");
            for length in [700, 48, 64, 48] {
                file.append(&vec![1; length]).expect("there is room");
            }
            disk.misdirect();
            file.append(&[2; 48]).expect("there is room");
            let found = disk.read(path).expect("it is there");
            let at = found.iter().position(|byte| *byte == 2);
            [Some(700), Some(700 + 48 + 64)].contains(&at)
        });
        let hits = hits.count();
        assert!((50..150).contains(&hits), "{hits} of 200");
    }
}
