//! Reduces readings to one row per time window: minimum, mean and maximum of gauges, and the last value of counters.
//!
//! This module is pure: the same entries at the same times give the same rows. Memory is bounded by the number of
//! series. Entries beyond the bound are counted, and so are entries after the end of their window.

use reweave_common::moment::Moment;

use crate::columns::Columns;
use crate::draft::{Draft, Drafts};
use crate::entry::Entry;
use crate::kind::Kind;
use crate::place::Place;
use crate::resolution::{Resolution, floor};
use crate::series::{Key, Roll};
use crate::table::TableError;

#[derive(Debug)]
pub(crate) struct Thinner {
    books: [Book; Kind::ALL.len()],
    /// The start of the open window of each resolution.
    starts: [Moment; Resolution::ALL.len()],
    most_series: usize,
    lost: Lost,
}

/// The entries that were dropped since the last query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Entries of series beyond the limit.
    pub(crate) beyond: u64,
    /// Entries of a window that was closed.
    pub(crate) late: u64,
}

/// The series of one kind.
#[derive(Debug)]
struct Book {
    kind: Kind,
    roll: Roll,
    /// The open window of each resolution, by the numbers of series.
    open: [Columns; Resolution::ALL.len()],
}

const COARSEST_LEVEL: usize = Resolution::ALL.len() - 1;

impl Thinner {
    pub(crate) fn new(most_series: usize) -> Self {
        Self {
            books: Kind::ALL.map(Book::new),
            starts: Default::default(),
            most_series,
            lost: Lost::default(),
        }
    }

    /// Closes windows that have ended by `now`, finest first. Each coarser window gets the rows of the finer one.
    pub(crate) fn advance(&mut self, now: Moment, drafts: &mut Drafts) -> Result<(), TableError> {
        let mut outcome = Ok(());
        for (level, resolution) in Resolution::ALL.into_iter().enumerate() {
            let next = floor(now, resolution.width());
            if next > self.starts[level] {
                let closed = self.close(level, drafts);
                self.starts[level] = next;
                outcome = outcome.and(closed);
            }
        }
        outcome
    }

    /// Closes all windows, even before their end.
    pub(crate) fn finish(&mut self, drafts: &mut Drafts) -> Result<(), TableError> {
        let mut outcome = Ok(());
        for level in 0..self.starts.len() {
            let closed = self.close(level, drafts);
            outcome = outcome.and(closed);
        }
        outcome
    }

    /// Adds an entry to the open window. Call [`Thinner::advance`] first.
    pub(crate) fn observe(&mut self, at: Moment, entry: &Entry) {
        if at < self.starts[0] {
            self.lost.late += 1;
        } else if let Some(number) = self.number(entry.kind, &entry.key) {
            let [finest, ..] = &mut self.books[entry.kind as usize].open;
            finest.take(number as usize, &entry.measures);
        } else {
            self.lost.beyond += 1;
        }
    }

    pub(crate) fn take_lost(&mut self) -> Lost {
        std::mem::take(&mut self.lost)
    }

    /// Returns the number of a series, or None if there are too many series.
    fn number(&mut self, kind: Kind, key: &Key) -> Option<u32> {
        let known = self.books[kind as usize].roll.number(key);
        if known.is_some() {
            return known;
        }
        let all: usize = self.books.iter().map(|book| book.roll.len()).sum();
        (all < self.most_series).then(|| self.books[kind as usize].roll.enroll(key.clone()))
    }

    /// Closes the windows of all kinds, even if one of them cannot be written.
    fn close(&mut self, level: usize, drafts: &mut Drafts) -> Result<(), TableError> {
        let at = self.starts[level];
        let mut outcome = Ok(());
        for book in &mut self.books {
            if book.open[level].says_anything() {
                let place = Place::of(book.kind, Resolution::ALL[level], at);
                let draft = drafts.at(place);
                outcome = outcome.and(draft.and_then(|draft| book.pass_on(level, at, draft)));
            }
            if level == COARSEST_LEVEL {
                book.forget_silent();
            }
            book.open[level].hush();
        }
        outcome
    }
}

impl Book {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            roll: Roll::default(),
            open: Resolution::ALL.map(|_| Columns::new(kind.shape())),
        }
    }

    /// Adds each row to the draft, and to the next coarser window.
    fn pass_on(&mut self, level: usize, at: Moment, draft: &mut Draft) -> Result<(), TableError> {
        self.roll.sort();
        let (open, coarser) = self.open.split_at_mut(level + 1);
        let open = &open[level];
        let mut outcome = Ok(());
        for &number in self.roll.order() {
            let Some(said) = open.row(number as usize) else {
                continue;
            };
            if let [next, ..] = coarser {
                next.take(number as usize, &said);
            }
            let pushed = draft.push(at, self.roll.name(number), &said);
            outcome = outcome.and(pushed);
        }
        outcome
    }

    /// Forgets series without an entry in the whole coarsest window.
    fn forget_silent(&mut self) {
        let coarsest = &self.open[COARSEST_LEVEL];
        let is_silent = |number: u32| coarsest.row(number as usize).is_none();
        for number in self.roll.forget(is_silent) {
            for columns in &mut self.open {
                columns.vacate(number as usize);
            }
        }
    }
}
