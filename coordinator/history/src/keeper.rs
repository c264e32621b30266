//! Keeps files on a shelf: writes new ones, holds what cannot be written yet, merges small ones, and
//! takes away what is old.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use reweave_common::moment::Moment;
use thiserror::Error;

use crate::draft::{Draft, Made};
use crate::place::{FileName, Place};
use crate::retention::Retention;
use crate::row::in_order;
use crate::shelf::{Listed, Shelf, ShelfError};
use crate::table::{Table, TableError, reach};

/// What waits for a shelf that does not take it.
pub(crate) const MAX_UNSAVED_BYTES: usize = 64 << 20;
/// A file of this many rows is not worth merging with others.
const MIN_UNMERGED_ROWS: u64 = 65_536;
/// Into one file, since all its rows are in memory meanwhile, each in some hundred bytes.
const MAX_MERGED_ROWS: u64 = 2 * MIN_UNMERGED_ROWS;
const MAX_MERGED_FILES: usize = 128;
/// Files that are made of others in one go, so that no writer waits for long.
const MAX_MERGES: usize = 8;
const MAX_REMOVED_FILES: usize = 256;
/// Rows of a stretch may still come this long after its end.
const LATE_ROWS_TIMEOUT: Duration = Duration::from_mins(2);

#[derive(Debug, Error)]
pub enum KeeperError {
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error("cannot make a file")]
    Table(#[from] TableError),
}

pub(crate) struct Keeper {
    shelf: Box<dyn Shelf>,
    retention: Retention,
    /// What this run found, and since when it goes by the clock itself.
    found: NewestAtStart,
    /// Distinguishes the files of this run from all others.
    run: u64,
    number: u64,
    /// With their rows.
    files: BTreeMap<Place, BTreeMap<FileName, u64>>,
    /// Merged by a run that may have ended before it removed what they replace.
    unfinished: Vec<(Place, FileName)>,
    /// Files that are named as no file of ours is.
    foreign: Vec<String>,
    /// Merged, and perhaps written: they go before anything else is merged.
    doubtful: Vec<(Place, FileName)>,
    /// Of which it is known that they cannot be read: they are left where they are.
    broken: BTreeSet<String>,
    unsaved: VecDeque<Unsaved>,
    unsaved_bytes: usize,
    /// The last file could not be written.
    is_failing: bool,
}

/// The newest that was there when this run began.
#[derive(Default)]
struct NewestAtStart {
    newest: Option<Moment>,
    /// When the first look was.
    first: Option<Moment>,
}

impl NewestAtStart {
    /// A writer that is silent for longer than that is missed.
    const MAX_WRITE_GAP: Duration = Duration::from_hours(1);

    /// A moment that is not long after what was written last: one start with a clock that is a year ahead
    /// must not take away what was kept. After a longer rest, what is old goes once the next run has begun.
    fn surely(&mut self, now: Moment) -> Moment {
        let first = *self.first.get_or_insert(now);
        let Some(newest) = self.newest else {
            return now;
        };
        now.min(newest + Self::MAX_WRITE_GAP + now.since(first))
    }
}

struct Unsaved {
    place: Place,
    name: FileName,
    content: Bytes,
    rows: u64,
}

/// What a look at the shelf led to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tended {
    pub(crate) merged: usize,
    pub(crate) removed: usize,
    /// Found broken, for the first time.
    pub(crate) broken: Vec<String>,
}

impl Keeper {
    pub(crate) fn open(
        shelf: Box<dyn Shelf>,
        retention: Retention,
        run: u64,
    ) -> Result<Self, ShelfError> {
        let mut keeper = Self {
            shelf,
            retention,
            found: NewestAtStart::default(),
            run,
            number: 0,
            files: BTreeMap::new(),
            unfinished: Vec::new(),
            foreign: Vec::new(),
            doubtful: Vec::new(),
            broken: BTreeSet::new(),
            unsaved: VecDeque::new(),
            unsaved_bytes: 0,
            is_failing: false,
        };
        for Listed { name: path, bytes } in keeper.shelf.list(None)? {
            match Place::parse(&path) {
                Some((place, name)) => {
                    // How many rows it has is not known; few take less than a byte.
                    keeper.add(place, name, bytes);
                }
                None => keeper.foreign.push(path),
            }
        }
        let crowded = keeper.files.iter().filter(|(_, names)| names.len() > 1);
        let merged = crowded.flat_map(|(place, names)| {
            let merged = names.keys().filter(|name| name.merged);
            merged.map(|name| (*place, name.clone()))
        });
        keeper.unfinished = merged.collect();
        keeper.found.newest = keeper.files.keys().map(Place::end).max();
        Ok(keeper)
    }

    pub(crate) fn foreign(&self) -> &[String] {
        &self.foreign
    }

    /// Takes a file of one place. How many rows had to be let go, since nothing could be written for
    /// too long.
    pub(crate) fn take(&mut self, place: Place, made: Made) -> u64 {
        let Made { content, rows } = made;
        let unsaved = Unsaved {
            place,
            name: self.name(false, &content),
            rows,
            content,
        };
        self.unsaved_bytes += unsaved.content.len();
        self.unsaved.push_back(unsaved);
        self.let_go()
    }

    fn let_go(&mut self) -> u64 {
        let mut lost = 0;
        while self.unsaved_bytes > MAX_UNSAVED_BYTES
            && let Some(oldest) = self.unsaved.pop_front()
        {
            self.unsaved_bytes -= oldest.content.len();
            lost += oldest.rows;
        }
        lost
    }

    /// A shelf that failed is not asked again each time: it may take long to answer.
    pub(crate) fn save_unless_failing(&mut self) -> Result<(), ShelfError> {
        if self.is_failing { Ok(()) } else { self.save() }
    }

    /// Writes what waits, until something fails.
    pub(crate) fn save(&mut self) -> Result<(), ShelfError> {
        self.is_failing = true;
        while let Some(next) = self.unsaved.front() {
            let path = next.place.path(&next.name);
            self.shelf.put(&path, next.content.clone())?;
            if let Some(saved) = self.unsaved.pop_front() {
                self.unsaved_bytes -= saved.content.len();
                self.add(saved.place, saved.name, saved.rows);
            }
        }
        self.is_failing = false;
        Ok(())
    }

    /// Takes away what is old, and merges the files of one stretch that is over. Bounded: what is
    /// left to do is done next time.
    pub(crate) fn tend(&mut self, now: Moment) -> Result<Tended, KeeperError> {
        while let Some((place, name)) = self.doubtful.last() {
            self.shelf.remove(&place.path(name))?;
            self.doubtful.pop();
        }
        let mut tended = Tended {
            removed: self.remove_old(now)?,
            ..Tended::default()
        };
        match self.unfinished.last().cloned() {
            Some((place, merged)) => {
                self.finish_merging(place, &merged, &mut tended)?;
                self.unfinished.pop();
            }
            None => self.merge_some(now, &mut tended)?,
        }
        Ok(tended)
    }

    fn add(&mut self, place: Place, name: FileName, rows: u64) {
        self.files.entry(place).or_default().insert(name, rows);
    }

    fn remove_old(&mut self, now: Moment) -> Result<usize, ShelfError> {
        let (retention, now) = (self.retention, self.found.surely(now));
        let is_old = |place: &Place| now.since(place.end()) > retention.of(place.resolution);
        let old = self.files.iter().filter(|(place, _)| is_old(place));
        let names =
            old.flat_map(|(&place, names)| names.keys().map(move |name| (place, name.clone())));
        let old: Vec<_> = names.take(MAX_REMOVED_FILES).collect();
        for (place, name) in &old {
            self.remove(*place, name)?;
        }
        Ok(old.len())
    }

    fn remove(&mut self, place: Place, name: &FileName) -> Result<(), ShelfError> {
        self.shelf.remove(&place.path(name))?;
        self.forget(place, name);
        Ok(())
    }

    fn merge_some(&mut self, now: Moment, tended: &mut Tended) -> Result<(), KeeperError> {
        for _ in 0..MAX_MERGES {
            if let Some(place) = self.wants_merging(now) {
                self.merge(place, tended)?;
            }
        }
        Ok(())
    }

    fn wants_merging(&self, now: Moment) -> Option<Place> {
        let over = |place: &Place| now.since(place.end()) >= LATE_ROWS_TIMEOUT;
        let mut places = self.files.keys().filter(|place| over(place));
        places.find(|place| self.small(**place).len() > 1).copied()
    }

    /// Files that are worth merging, as many as are in one go.
    fn small(&self, place: Place) -> Vec<FileName> {
        let files = self.files.get(&place).into_iter().flatten();
        let whole = |name: &FileName| !self.broken.contains(&place.path(name));
        let small = files.filter(|(name, rows)| **rows < MIN_UNMERGED_ROWS && whole(name));
        let mut total = 0;
        let few = small.take_while(|(_, rows)| {
            total += **rows;
            total <= MAX_MERGED_ROWS
        });
        few.map(|(name, _)| name.clone())
            .take(MAX_MERGED_FILES)
            .collect()
    }

    /// One file takes the place of several, and says so; only then are those removed. A crash in
    /// between leaves both, and the next run removes those that the new one names.
    fn merge(&mut self, place: Place, tended: &mut Tended) -> Result<(), KeeperError> {
        let mut rows = Vec::new();
        let mut names = Vec::new();
        for name in self.small(place) {
            if let Some(table) = self.load(place, &name, tended)? {
                rows.extend(table.rows);
                names.push(name);
            }
        }
        if names.len() < 2 {
            return Ok(());
        }
        let replaces: Vec<_> = names.iter().map(ToString::to_string).collect();
        let Made { content, rows } = Draft::made(place.kind, &replaces, in_order(rows))?;
        let merged = self.name(true, &content);
        let put = self.shelf.put(&place.path(&merged), content.clone());
        if put.is_err() {
            self.doubtful.push((place, merged.clone()));
        }
        put?;
        self.add(place, merged.clone(), rows);
        self.unfinished.push((place, merged));
        self.remove_all(place, &names)?;
        self.unfinished.pop();
        tended.merged += names.len();
        Ok(())
    }

    fn finish_merging(
        &mut self,
        place: Place,
        merged: &FileName,
        tended: &mut Tended,
    ) -> Result<(), KeeperError> {
        let Some(table) = self.load(place, merged, tended)? else {
            return Ok(());
        };
        let files = self.files.get(&place);
        let there = |name: &FileName| files.is_some_and(|files| files.contains_key(name));
        let replaced = table
            .replaces
            .iter()
            .filter_map(|name| FileName::parse(name));
        let left: Vec<_> = replaced.filter(there).collect();
        Ok(self.remove_all(place, &left)?)
    }

    fn remove_all(&mut self, place: Place, names: &[FileName]) -> Result<(), ShelfError> {
        names.iter().try_for_each(|name| self.remove(place, name))
    }

    /// Nothing when it is gone or broken.
    fn load(
        &mut self,
        place: Place,
        name: &FileName,
        tended: &mut Tended,
    ) -> Result<Option<Table>, ShelfError> {
        let path = place.path(name);
        let Some(content) = self.shelf.get(&path)? else {
            self.forget(place, name);
            return Ok(None);
        };
        let table = read(place, name, content);
        if table.is_err() {
            self.broken.insert(path.clone());
            tended.broken.push(path);
        }
        Ok(table.ok())
    }

    fn forget(&mut self, place: Place, name: &FileName) {
        if let Some(names) = self.files.get_mut(&place) {
            names.remove(name);
            if names.is_empty() {
                self.files.remove(&place);
            }
        }
    }

    fn name(&mut self, merged: bool, content: &Bytes) -> FileName {
        self.number += 1;
        FileName {
            merged,
            run: self.run,
            number: self.number,
            checksum: crc32fast::hash(content),
        }
    }
}

/// The table in a file, if the file is as it was written.
pub(crate) fn read(place: Place, name: &FileName, content: Bytes) -> Result<Table, TableError> {
    let always = Moment::default()..Moment::from_micros(u64::MAX);
    read_of(place, name, content, &always)
}

/// What a file holds of this time, and perhaps of the time around it.
pub(crate) fn read_of(
    place: Place,
    name: &FileName,
    content: Bytes,
    time: &Range<Moment>,
) -> Result<Table, TableError> {
    whole(name, &content)?;
    Table::decode(place.kind, content, time)
}

/// When the first and the last of what a file holds began.
pub(crate) fn reach_of(
    place: Place,
    name: &FileName,
    content: Bytes,
) -> Result<Option<[Moment; 2]>, TableError> {
    whole(name, &content)?;
    reach(place.kind, content)
}

fn whole(name: &FileName, content: &Bytes) -> Result<(), TableError> {
    let is_whole = crc32fast::hash(content) == name.checksum;
    is_whole.then_some(()).ok_or(TableError::Changed)
}
