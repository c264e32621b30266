//! Many readings become one row per stretch of time: least, mean and most of what varies, the last
//! of what counts up.
//!
//! Pure: the same entries at the same moments make the same rows. Memory is bounded by the number of
//! series; what comes beyond is counted, and so is what comes after its stretch was closed.

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
    /// When the open stretch of each resolution began.
    starts: [Moment; Resolution::ALL.len()],
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

/// What is known of the series of one kind.
#[derive(Debug)]
struct Book {
    kind: Kind,
    roll: Roll,
    /// The open stretch of each resolution, by the numbers of series.
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

    /// Time is `now`: closes what is over, the finest first, each on top of the one before.
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

    /// Closes everything, over or not.
    pub(crate) fn finish(&mut self, drafts: &mut Drafts) -> Result<(), TableError> {
        let mut outcome = Ok(());
        for level in 0..self.starts.len() {
            let closed = self.close(level, drafts);
            outcome = outcome.and(closed);
        }
        outcome
    }

    /// Of the stretch that is open: [`Thinner::advance`] comes first.
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

    /// Nothing when too many are known already.
    fn number(&mut self, kind: Kind, key: &Key) -> Option<u32> {
        let known = self.books[kind as usize].roll.number(key);
        if known.is_some() {
            return known;
        }
        let all: usize = self.books.iter().map(|book| book.roll.len()).sum();
        (all < self.most_series).then(|| self.books[kind as usize].roll.enroll(key.clone()))
    }

    /// All kinds are closed even where one cannot be written.
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

    /// Every row goes to the draft, and to the next coarser stretch.
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

    /// Who said nothing in the whole of the longest stretch.
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
