//! The history as it is written: entries in, files out.
//!
//! Nothing here waits for time, and whoever owns it decides on which thread it is.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::moment::Moment;

use crate::entry::Entry;
use crate::keeper::{Keeper, KeeperError, Retention, Tended};
use crate::place::Place;
use crate::row::Row;
use crate::shelf::{Shelf, ShelfError};
use crate::thin::{Closed, Thinner};
use crate::url::open;

/// Rows that wait to be written; a file is made when there are so many of one place, or of all.
const ROWS_OF_A_FILE: usize = 100_000;
const MOST_ROWS: usize = 300_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    pub retention: Retention,
    /// Rows wait at most so long in memory.
    pub write_every: Duration,
    /// So many links, flows and the like are told apart.
    pub most_series: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            retention: Retention::default(),
            write_every: Duration::from_mins(1),
            most_series: 500_000,
        }
    }
}

/// What the keeping of the history wants to be told to a person.
#[derive(Debug, Default)]
pub struct Told {
    /// Files that were merged into fewer, and files that were removed because they were old.
    pub merged: usize,
    pub removed: usize,
    /// Files that cannot be read, found just now.
    pub broken: Vec<String>,
    /// Rows that were let go, since nothing could be written for too long.
    pub lost_rows: u64,
    /// Of more series than are told apart.
    pub beyond: u64,
    /// Of a time that was over.
    pub late: u64,
}

pub struct Chronicle {
    thinner: Thinner,
    keeper: Keeper,
    rules: Rules,
    waiting: BTreeMap<Place, Vec<Row>>,
    waiting_rows: usize,
    written: Moment,
    told: Told,
}

impl Chronicle {
    /// `url` names a folder or an object store; `run` tells this run's files from all others'.
    pub fn open(url: &str, rules: Rules, run: u64) -> Result<Self, ShelfError> {
        Self::on(open(url)?, rules, run)
    }

    pub(crate) fn on(shelf: Box<dyn Shelf>, rules: Rules, run: u64) -> Result<Self, ShelfError> {
        Ok(Self {
            thinner: Thinner::new(rules.most_series),
            keeper: Keeper::open(shelf, rules.retention, run)?,
            rules,
            waiting: BTreeMap::new(),
            waiting_rows: 0,
            written: Moment::default(),
            told: Told::default(),
        })
    }

    /// Files that lie there and are none of ours.
    pub fn foreign(&self) -> &[String] {
        self.keeper.foreign()
    }

    /// Time goes on. What is due is written, and what is old removed. Whether it was time for that; an
    /// error says what failed, and is tried again next time.
    pub fn advance(&mut self, now: Moment) -> Result<bool, KeeperError> {
        let closed = self.thinner.advance(now);
        self.take(closed)?;
        if self.written == Moment::default() {
            self.written = now;
        }
        let due = now.since(self.written) >= self.rules.write_every;
        if due {
            self.written = now;
            self.write()?;
            self.tend(now)?;
        }
        Ok(due)
    }

    pub fn observe(&mut self, at: Moment, entry: Entry) {
        self.thinner.observe(at, entry);
    }

    /// Writes everything, over or not.
    pub fn close(&mut self) -> Result<bool, KeeperError> {
        let closed = self.thinner.finish();
        self.take(closed)?;
        self.write()?;
        Ok(true)
    }

    /// What there is to tell since this was last asked.
    pub fn take_told(&mut self) -> Told {
        let lost = self.thinner.take_lost();
        self.told.beyond += lost.beyond;
        self.told.late += lost.late;
        std::mem::take(&mut self.told)
    }

    fn take(&mut self, closed: Vec<Closed>) -> Result<(), KeeperError> {
        for Closed { resolution, rows } in closed {
            for row in rows {
                let place = Place::of(row.series.kind, resolution, row.at);
                self.waiting.entry(place).or_default().push(row);
                self.waiting_rows += 1;
            }
        }
        self.hand_over(|rows| rows.len() >= ROWS_OF_A_FILE)?;
        match self.waiting_rows {
            MOST_ROWS.. => self.hand_over(|_| true),
            _ => Ok(()),
        }
    }

    fn write(&mut self) -> Result<(), KeeperError> {
        self.hand_over(|_| true)?;
        Ok(self.keeper.save()?)
    }

    fn hand_over(&mut self, due: impl Fn(&Vec<Row>) -> bool) -> Result<(), KeeperError> {
        let due = self.waiting.extract_if(.., |_, rows| due(rows));
        for (place, rows) in due {
            self.waiting_rows -= rows.len();
            self.told.lost_rows += self.keeper.take(place, rows)?;
        }
        Ok(())
    }

    fn tend(&mut self, now: Moment) -> Result<(), KeeperError> {
        let Tended {
            merged,
            removed,
            broken,
        } = self.keeper.tend(now)?;
        self.told.merged += merged;
        self.told.removed += removed;
        self.told.broken.extend(broken);
        Ok(())
    }
}
