//! Many readings become one row per stretch of time: least, mean and most of what varies, the last
//! of what counts up.
//!
//! Pure: the same entries at the same moments make the same rows. Memory is bounded by the number of
//! series; what comes beyond is counted, and so is what comes after its stretch was closed.

use std::collections::BTreeMap;

use reweave_common::moment::Moment;

use crate::entry::{Entry, Series};
use crate::resolution::{Resolution, floor};
use crate::row::{Measures, Row};

#[derive(Debug)]
pub(crate) struct Thinner {
    levels: Vec<Level>,
    most_series: usize,
    lost: Lost,
}

/// What found no place since this was last asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Of more series than are kept.
    pub(crate) beyond: u64,
    /// Of a stretch that was over.
    pub(crate) late: u64,
}

#[derive(Debug)]
struct Level {
    resolution: Resolution,
    /// When the open stretch began.
    start: Moment,
    open: BTreeMap<Series, Measures>,
}

/// A stretch that is over.
pub(crate) struct Closed {
    pub(crate) resolution: Resolution,
    pub(crate) rows: Vec<Row>,
}

impl Thinner {
    pub(crate) fn new(most_series: usize) -> Self {
        let level = |resolution| Level {
            resolution,
            start: Moment::default(),
            open: BTreeMap::new(),
        };
        Self {
            levels: Resolution::ALL.map(level).into(),
            most_series,
            lost: Lost::default(),
        }
    }

    /// Time is `now`: closes what is over, the finest first, each on top of the one before.
    pub(crate) fn advance(&mut self, now: Moment) -> Vec<Closed> {
        let mut closed = Vec::new();
        for index in 0..self.levels.len() {
            let level = &mut self.levels[index];
            let start = floor(now, level.resolution.width());
            if start > level.start {
                let rows = level.close(start);
                self.pass_on(index + 1, &rows);
                let resolution = self.levels[index].resolution;
                closed.push(Closed { resolution, rows });
            }
        }
        closed.retain(|closed| !closed.rows.is_empty());
        closed
    }

    /// Closes everything, over or not.
    pub(crate) fn finish(&mut self) -> Vec<Closed> {
        let mut closed = Vec::new();
        for index in 0..self.levels.len() {
            let level = &mut self.levels[index];
            let rows = level.close(level.start);
            self.pass_on(index + 1, &rows);
            let resolution = self.levels[index].resolution;
            closed.push(Closed { resolution, rows });
        }
        closed
    }

    /// Of the stretch that is open: [`Thinner::advance`] comes first.
    pub(crate) fn observe(&mut self, at: Moment, entry: Entry) {
        let level = &mut self.levels[0];
        if at < level.start {
            self.lost.late += 1;
        } else if !level.add(entry.series, &entry.measures, self.most_series) {
            self.lost.beyond += 1;
        }
    }

    pub(crate) fn take_lost(&mut self) -> Lost {
        std::mem::take(&mut self.lost)
    }

    fn pass_on(&mut self, index: usize, rows: &[Row]) {
        let Some(level) = self.levels.get_mut(index) else {
            return;
        };
        for row in rows {
            if !level.add(row.series.clone(), &row.measures, self.most_series) {
                self.lost.beyond += row.measures.readings;
            }
        }
    }
}

impl Level {
    /// Whether there was room.
    fn add(&mut self, series: Series, measures: &Measures, most: usize) -> bool {
        if let Some(open) = self.open.get_mut(&series) {
            open.merge(measures);
            return true;
        }
        let fits = self.open.len() < most;
        if fits {
            self.open.insert(series, measures.clone());
        }
        fits
    }

    fn close(&mut self, next: Moment) -> Vec<Row> {
        let at = std::mem::replace(&mut self.start, next);
        let rows = std::mem::take(&mut self.open).into_iter();
        rows.map(|(series, measures)| Row {
            at,
            series,
            measures,
        })
        .collect()
    }
}
