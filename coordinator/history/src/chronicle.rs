//! The writing side of the history: entries in, files out.
//!
//! Nothing in this module waits, and the owner chooses the thread.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::moment::Moment;

use crate::draft::{Draft, Drafts};
use crate::entry::Entry;
use crate::keeper::{Keeper, KeeperError, Tended};
use crate::place::Place;
use crate::retention::Retention;
use crate::shelf::{Shelf, ShelfError};
use crate::table::TableError;
use crate::thin::Thinner;
use crate::url::open;

#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    pub retention: Retention,
    /// The maximum time that rows wait in memory.
    pub write_every: Duration,
    /// The maximum number of series per kind, such as links and flows.
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

/// What became of the history's files and rows since the last report, for the log.
#[derive(Debug, Default)]
pub struct KeepingReport {
    /// Files that were merged into fewer, and files that were removed because they were old.
    pub merged: usize,
    pub removed: usize,
    /// Files that were newly found to be unreadable.
    pub broken: Vec<String>,
    /// Rows that were dropped because nothing could be written for too long.
    pub lost_rows: u64,
    /// Entries of series beyond the limit.
    pub beyond: u64,
    /// Entries of a time window that was closed.
    pub late: u64,
}

pub struct Chronicle {
    thinner: Thinner,
    keeper: Keeper,
    rules: Rules,
    drafts: Drafts,
    written: Moment,
    report: KeepingReport,
}

impl Chronicle {
    /// Opens a location to write. `url` names a folder or an object store. `run` distinguishes the files of this run
    /// from all others.
    pub fn open(url: &str, rules: Rules, run: u64) -> Result<Self, ShelfError> {
        Self::on(open(url)?, rules, run)
    }

    pub(crate) fn on(shelf: Box<dyn Shelf>, rules: Rules, run: u64) -> Result<Self, ShelfError> {
        Ok(Self {
            thinner: Thinner::new(rules.most_series),
            keeper: Keeper::open(shelf, rules.retention, run)?,
            rules,
            drafts: Drafts::default(),
            written: Moment::default(),
            report: KeepingReport::default(),
        })
    }

    /// Returns files at the location that do not belong to the history.
    pub fn foreign(&self) -> &[String] {
        self.keeper.foreign()
    }

    /// Advances the time: writes rows that are due and removes old files. Returns whether it was time for that. After
    /// an error, the next call tries the failed operation again.
    pub fn advance(&mut self, now: Moment) -> Result<bool, KeeperError> {
        self.thinner.advance(now, &mut self.drafts)?;
        self.drafts.relieve()?;
        let large = self.drafts.take_large();
        self.keep(large)?;
        self.keeper.save_unless_failing()?;
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

    pub fn observe(&mut self, at: Moment, entry: &Entry) {
        self.thinner.observe(at, entry);
    }

    /// Writes all rows, even of open windows.
    pub fn close(&mut self) -> Result<bool, KeeperError> {
        self.thinner.finish(&mut self.drafts)?;
        self.write()?;
        Ok(true)
    }

    /// Returns what happened since the last call.
    pub fn take_report(&mut self) -> KeepingReport {
        let lost = self.thinner.take_lost();
        self.report.beyond += lost.beyond;
        self.report.late += lost.late;
        std::mem::take(&mut self.report)
    }

    fn write(&mut self) -> Result<(), KeeperError> {
        let all = self.drafts.take_all();
        self.keep(all)?;
        Ok(self.keeper.save()?)
    }

    /// Hands over finished files. A file that cannot be encoded does not prevent the others.
    fn keep(&mut self, drafts: BTreeMap<Place, Draft>) -> Result<(), TableError> {
        let mut outcome = Ok(());
        for (place, draft) in drafts {
            match draft.finish() {
                Ok(made) => self.report.lost_rows += self.keeper.take(place, made),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn tend(&mut self, now: Moment) -> Result<(), KeeperError> {
        let Tended {
            merged,
            removed,
            broken,
        } = self.keeper.tend(now)?;
        self.report.merged += merged;
        self.report.removed += removed;
        self.report.broken.extend(broken);
        Ok(())
    }
}
