//! Manages the files on a shelf: writes new files, buffers files that cannot be written yet, merges small files and
//! removes old ones.

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

/// The maximum size of files that wait because the shelf refuses them.
pub(crate) const MAX_UNSAVED_BYTES: usize = 64 << 20;
/// The number of rows from which a file is not merged with others.
const MIN_UNMERGED_ROWS: u64 = 65_536;
/// The maximum number of rows of a merged file. All of them are in memory during the merge, at some hundred bytes each.
const MAX_MERGED_ROWS: u64 = 2 * MIN_UNMERGED_ROWS;
const MAX_MERGED_FILES: usize = 128;
/// The maximum number of merges in one call, so that no writer waits for long.
const MAX_MERGES: usize = 8;
const MAX_REMOVED_FILES: usize = 256;
/// Rows of a time window may arrive this long after its end.
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
    /// The newest row at the start of this run, and the time of the first query.
    found: NewestAtStart,
    /// Distinguishes the files of this run from all others.
    run: u64,
    number: u64,
    /// The files, with the numbers of their rows.
    files: BTreeMap<Place, BTreeMap<FileName, u64>>,
    /// Files merged by a run that may have ended before it removed the files that they replace.
    unfinished: Vec<(Place, FileName)>,
    /// Files whose names do not belong to the history.
    foreign: Vec<String>,
    /// Merged files that were perhaps written. They are removed before the next merge.
    doubtful: Vec<(Place, FileName)>,
    /// Files that are known to be unreadable. They stay in place.
    broken: BTreeSet<String>,
    unsaved: VecDeque<Unsaved>,
    unsaved_bytes: usize,
    /// True if the last file could not be written.
    is_failing: bool,
}

/// The newest row at the start of this run.
#[derive(Default)]
struct NewestAtStart {
    newest: Option<Moment>,
    /// The time of the first query.
    first: Option<Moment>,
}

impl NewestAtStart {
    /// A running writer writes more often than this.
    const MAX_WRITE_GAP: Duration = Duration::from_hours(1);

    /// Returns a moment that is not long after the last write: a start with a clock that is a year ahead must not
    /// remove the history. After a longer pause, old files are removed once the next run has begun.
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

/// The result of one call of [`Keeper::tend`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tended {
    pub(crate) merged: usize,
    pub(crate) removed: usize,
    /// Files that were newly found to be unreadable.
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
                    // The number of rows is unknown. Few rows take less than a byte.
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

    /// Takes a file of one place. Returns how many rows were dropped because nothing could be written for too long.
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

    /// Writes waiting files, unless the shelf failed before: it may take long to answer.
    pub(crate) fn save_unless_failing(&mut self) -> Result<(), ShelfError> {
        if self.is_failing { Ok(()) } else { self.save() }
    }

    /// Writes waiting files until an error occurs.
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

    /// Removes old files, and merges the files of one ended period. The work per call is bounded, and the next call
    /// continues.
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

    /// Returns the files to merge, up to the limit of one merge.
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

    /// Merges files into one, which names the files that it replaces, and then removes these. A crash in between leaves
    /// both, and the next run removes the replaced ones.
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

    /// Loads a file. None if it is gone or unreadable.
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

/// Decodes a file, if its checksum is right.
pub(crate) fn read(place: Place, name: &FileName, content: Bytes) -> Result<Table, TableError> {
    let always = Moment::default()..Moment::from_micros(u64::MAX);
    read_of(place, name, content, &always)
}

/// Decodes the rows of this time span, and perhaps of the time around it.
pub(crate) fn read_of(
    place: Place,
    name: &FileName,
    content: Bytes,
    time: &Range<Moment>,
) -> Result<Table, TableError> {
    whole(name, &content)?;
    Table::decode(place.kind, content, time)
}

/// Returns the times of the first and the last row of a file.
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
