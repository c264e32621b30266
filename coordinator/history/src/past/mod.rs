//! The reading side of the history: the rows between two moments.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::moment::Moment;
use thiserror::Error;

use crate::keeper::read_of;
use crate::kind::Kind;
use crate::place::{FileName, Place, written};
use crate::resolution::Resolution;
use crate::row::{Row, in_order};
use crate::shelf::{Shelf, ShelfError};
use crate::table::Table;
use crate::url;

mod bursts;
mod cluster;
mod covered;
mod kept;
mod moved;
mod seen;

pub use covered::Covered;
pub use kept::Kept;
pub use seen::{
    AgentSeen, CollectivesSeen, Event, Figures, FlowSeen, GapSeen, HealthSeen, ImbalanceSeen,
    InterfaceSeen, LinkSeen, MachineSeen, PathSeen, PinsSeen, ProbesSeen, RhythmSeen, Seen,
    StateSeen, TrafficSeen, Window,
};

/// The maximum number of rows in memory.
const MAX_ROWS: usize = 4_000_000;
/// The maximum number of listings per query: files are merged while they are read.
const MAX_LISTINGS: usize = 5;
/// The longest time spans for which rows of these resolutions are of use.
const MAX_SECOND_SPAN: Duration = Duration::from_hours(1);
const MAX_TEN_SECOND_SPAN: Duration = Duration::from_hours(24);

#[derive(Debug, Error)]
pub enum PastError {
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error("{} is not before {}", written(*.from), written(*.to))]
    NotBefore { from: Moment, to: Moment },
    #[error(
        "from {} to {} there are more than {most} rows: request a shorter span, fewer kinds, or a \
         coarser resolution", written(*.from), written(*.to)
    )]
    TooMuch {
        from: Moment,
        to: Moment,
        most: usize,
    },
    #[error("the request was cancelled")]
    Stopped,
    #[error("the files in {folder} change faster than they can be read; try again")]
    Restless { folder: String },
}

/// A query: the time span from a moment up to another one, which is excluded.
#[derive(Debug, Clone)]
pub struct Question {
    pub from: Moment,
    pub to: Moment,
    /// None chooses the finest resolution that suits the time span and exists.
    pub resolution: Option<Resolution>,
    pub kinds: Vec<Kind>,
}

/// A history for reading, which another process may be writing at the same time.
pub struct Past {
    shelf: Box<dyn Shelf>,
    most_rows: usize,
    /// Called before each file: the query ends when it returns false.
    goes_on: GoesOn,
}

type GoesOn = Box<dyn Fn() -> bool + Send>;

/// The rows that were found, and the problems that occurred.
#[derive(Default)]
struct FoundRows {
    rows: Vec<Row>,
    warnings: Vec<String>,
}

impl Past {
    /// Opens a location. `url` names a folder or an object store, as for writing.
    pub fn open(url: &str) -> Result<Self, ShelfError> {
        Ok(Self::on(url::open_to_read(url)?))
    }

    pub(crate) fn on(shelf: Box<dyn Shelf>) -> Self {
        Self {
            shelf,
            most_rows: MAX_ROWS,
            goes_on: Box::new(|| true),
        }
    }

    /// Limits the rows in memory, and ends queries once `goes_on` returns false.
    pub fn within(self, most_rows: usize, goes_on: impl Fn() -> bool + Send + 'static) -> Self {
        Self {
            most_rows: most_rows.min(MAX_ROWS),
            goes_on: Box::new(goes_on),
            ..self
        }
    }

    fn keep_on(&self) -> Result<(), PastError> {
        (self.goes_on)().then_some(()).ok_or(PastError::Stopped)
    }

    /// Reads the rows of a query. Unreadable or missing files are warnings of the window, and no errors.
    pub fn look(&self, question: &Question) -> Result<Window, PastError> {
        let Question { from, to, .. } = *question;
        if from >= to {
            return Err(PastError::NotBefore { from, to });
        }
        let wanted = question
            .resolution
            .map_or_else(|| in_turn(from, to), |one| vec![one]);
        let mut first = None;
        for resolution in wanted {
            let found = self.find(question, resolution)?;
            if !found.rows.is_empty() {
                return Ok(Window::new(resolution, &found.rows, found.warnings));
            }
            first.get_or_insert((resolution, found.warnings));
        }
        let (resolution, warnings) = first.unwrap_or((Resolution::Second, Vec::new()));
        Ok(Window::new(resolution, &[], warnings))
    }

    fn find(&self, question: &Question, resolution: Resolution) -> Result<FoundRows, PastError> {
        let mut found = FoundRows::default();
        let kinds: BTreeSet<_> = question.kinds.iter().copied().collect();
        for kind in kinds {
            for folder in days(kind, resolution, question.from, question.to) {
                self.read_day(question, &folder, &mut found)?;
            }
        }
        found.rows = in_order(found.rows);
        Ok(found)
    }

    /// Reads one day. If a file is gone, it was merged into another one, and the day is read again.
    fn read_day(
        &self,
        question: &Question,
        folder: &str,
        found: &mut FoundRows,
    ) -> Result<(), PastError> {
        for _ in 0..MAX_LISTINGS {
            let mut day = FoundRows::default();
            if self.try_day(question, folder, found.rows.len(), &mut day)? {
                found.rows.extend(day.rows);
                found.warnings.extend(day.warnings);
                return Ok(());
            }
        }
        let folder = folder.to_owned();
        Err(PastError::Restless { folder })
    }

    fn try_day(
        &self,
        question: &Question,
        folder: &str,
        before: usize,
        day: &mut FoundRows,
    ) -> Result<bool, PastError> {
        let Question { from, to, .. } = *question;
        let mut replaced = BTreeSet::new();
        for (place, name) in self.files(folder, question, day)? {
            if replaced.contains(&(place, name.to_string())) {
                continue;
            }
            self.keep_on()?;
            let path = place.path(&name);
            let Some(content) = self.shelf.get(&path)? else {
                return Ok(false);
            };
            match read_of(place, &name, content, &(from..to)) {
                Err(error) => day.warnings.push(format!("{path} is left out: {error}")),
                Ok(Table { rows, replaces }) => {
                    replaced.extend(replaces.into_iter().map(|name| (place, name)));
                    day.rows
                        .extend(rows.into_iter().filter(|row| (from..to).contains(&row.at)));
                }
            }
            let most = self.most_rows;
            if before + day.rows.len() > most {
                return Err(PastError::TooMuch { from, to, most });
            }
        }
        Ok(true)
    }

    /// Returns the files that may have rows of the query. Files that replace others come first, newest first.
    fn files(
        &self,
        folder: &str,
        question: &Question,
        day: &mut FoundRows,
    ) -> Result<Vec<(Place, FileName)>, PastError> {
        let mut files = Vec::new();
        for listed in self.shelf.list(Some(folder))? {
            match Place::parse(&listed.name) {
                Some(file) => files.push(file),
                None => day
                    .warnings
                    .push(format!("{} is none of ours, and is left out", listed.name)),
            }
        }
        files.retain(|(place, _)| place.start < question.to && place.end() > question.from);
        files.sort_by(|(_, a), (_, b)| (b.merged, b.number, b).cmp(&(a.merged, a.number, a)));
        Ok(files)
    }
}

/// Returns the resolutions in the order of trials: the suitable one, then coarser ones, then finer ones.
fn in_turn(from: Moment, to: Moment) -> Vec<Resolution> {
    let span = to.since(from);
    let fitting = match span {
        _ if span <= MAX_SECOND_SPAN => 0,
        _ if span <= MAX_TEN_SECOND_SPAN => 1,
        _ => 2,
    };
    let (finer, rest) = Resolution::ALL.split_at(fitting);
    rest.iter().chain(finer.iter().rev()).copied().collect()
}

/// Returns the folders of all days of the time span, or the folder above all days.
fn days(kind: Kind, resolution: Resolution, from: Moment, to: Moment) -> Vec<String> {
    let day = Resolution::FiveMinutes.period();
    if to.since(from) > day * MAX_DAYS {
        return vec![Place::folder_of_all(kind, resolution)];
    }
    let first = Place::of(kind, Resolution::FiveMinutes, from).start;
    let starts = std::iter::successors(Some(first), |&start| Some(start + day));
    let places = starts.take_while(|&start| start < to).map(|start| Place {
        kind,
        resolution,
        start,
    });
    places.map(|place| place.day_folder()).collect()
}

/// The number of days from which one long listing is faster than many short ones.
const MAX_DAYS: u32 = 400;
