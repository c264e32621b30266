//! The history as it is written: entries in, files out.
//!
//! Nothing here waits for time, and the owner decides on which thread it is.

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
    /// Rows wait at most this long in memory.
    pub write_every: Duration,
    /// This many links, flows and the like have series of their own.
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
    /// Files that cannot be read, found just now.
    pub broken: Vec<String>,
    /// Rows that were let go, since nothing could be written for too long.
    pub lost_rows: u64,
    /// Of more series than are kept.
    pub beyond: u64,
    /// Of a time that was over.
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
    /// `url` names a folder or an object store; `run` distinguishes this run's files from all others.
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

    /// Files that lie there and are none of ours.
    pub fn foreign(&self) -> &[String] {
        self.keeper.foreign()
    }

    /// Time goes on. What is due is written, and what is old removed. Whether it was time for that; an
    /// error says what failed, and is tried again next time.
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

    /// Writes everything, over or not.
    pub fn close(&mut self) -> Result<bool, KeeperError> {
        self.thinner.finish(&mut self.drafts)?;
        self.write()?;
        Ok(true)
    }

    /// The news since the last call.
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

    /// One that cannot be made does not take the others with it.
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
