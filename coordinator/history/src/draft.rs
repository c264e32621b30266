//! Files in the making. Rows wait until there are enough for a group of a file, and groups until
//! there are enough for a file; what waits is bounded.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use reweave_common::moment::Moment;

use crate::columns::{Columns, Values};
use crate::kind::Kind;
use crate::place::Place;
use crate::row::Row;
use crate::table::TableError;
use crate::write::Writer;

/// This many rows are a group, which is written, and read, as one.
const ROWS_PER_GROUP: usize = 32_768;
/// Of all kinds together, some tens of megabytes.
const MAX_PENDING_ROWS: usize = 2 * ROWS_PER_GROUP;
/// A file takes no more beyond this.
const MAX_FILE_BYTES: usize = 4 << 20;
/// Of all files in the making.
const MAX_DRAFT_BYTES: usize = 16 << 20;

/// Rows as they wait for being written, column by column.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) began: Vec<Moment>,
    /// Of the series.
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) measures: Columns,
}

impl Sheet {
    fn new(kind: Kind) -> Self {
        Self {
            began: Vec::new(),
            names: Vec::new(),
            measures: Columns::new(kind.shape()),
        }
    }

    fn len(&self) -> usize {
        self.began.len()
    }

    fn push(&mut self, began: Moment, name: &Arc<str>, values: &impl Values) {
        self.began.push(began);
        self.names.push(Arc::clone(name));
        self.measures.push(values);
    }

    /// Which row comes after which: series by series, each in the order of time. Neighbours are alike
    /// then, and take little room. Those of one stretch came in this order.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.len()).collect();
        if self.began.first() == self.began.last() {
            return order;
        }
        let place = |&row: &usize| (&self.names[row], self.began[row]);
        order.sort_by(|a, b| place(a).cmp(&place(b)));
        order
    }

    fn clear(&mut self) {
        self.began.clear();
        self.names.clear();
        self.measures.clear();
    }
}

/// A file that may still take rows.
pub(crate) struct Draft {
    waiting: Sheet,
    file: Writer,
    rows: u64,
}

/// A file that takes no more.
pub(crate) struct Made {
    pub(crate) content: Bytes,
    pub(crate) rows: u64,
}

impl Draft {
    /// `replaces` names files whose rows this one takes the place of.
    pub(crate) fn new(kind: Kind, replaces: &[String]) -> Result<Self, TableError> {
        Ok(Self {
            waiting: Sheet::new(kind),
            file: Writer::new(kind, replaces)?,
            rows: 0,
        })
    }

    /// A whole file at once.
    pub(crate) fn made(
        kind: Kind,
        replaces: &[String],
        rows: Vec<Row>,
    ) -> Result<Made, TableError> {
        let mut draft = Self::new(kind, replaces)?;
        for row in rows {
            draft.push(row.at, &row.series.name, &row.measures)?;
        }
        draft.finish()
    }

    pub(crate) fn push(
        &mut self,
        at: Moment,
        name: &Arc<str>,
        values: &impl Values,
    ) -> Result<(), TableError> {
        self.waiting.push(at, name, values);
        match self.waiting.len() {
            ROWS_PER_GROUP.. => self.settle(),
            _ => Ok(()),
        }
    }

    /// Makes a group of the rows that wait.
    fn settle(&mut self) -> Result<(), TableError> {
        if self.waiting.len() == 0 {
            return Ok(());
        }
        let written = self.file.write(&self.waiting);
        self.rows += self.waiting.len() as u64;
        self.waiting.clear();
        written
    }

    fn bytes(&self) -> usize {
        self.file.bytes()
    }

    pub(crate) fn finish(mut self) -> Result<Made, TableError> {
        self.settle()?;
        let rows = self.rows;
        let content = self.file.finish()?;
        Ok(Made { content, rows })
    }
}

/// One for each place that has rows.
#[derive(Default)]
pub(crate) struct Drafts {
    drafts: BTreeMap<Place, Draft>,
}

impl Drafts {
    pub(crate) fn at(&mut self, place: Place) -> Result<&mut Draft, TableError> {
        match self.drafts.entry(place) {
            Entry::Occupied(draft) => Ok(draft.into_mut()),
            Entry::Vacant(empty) => Ok(empty.insert(Draft::new(place.kind, &[])?)),
        }
    }

    /// Makes groups of what waits when that is too much.
    pub(crate) fn relieve(&mut self) -> Result<(), TableError> {
        let waiting: usize = self.drafts.values().map(|draft| draft.waiting.len()).sum();
        match waiting {
            MAX_PENDING_ROWS.. => self.drafts.values_mut().try_for_each(Draft::settle),
            _ => Ok(()),
        }
    }

    /// The parts that are large enough to be files, or all parts when their sum is too large.
    pub(crate) fn take_large(&mut self) -> BTreeMap<Place, Draft> {
        let bytes: usize = self.drafts.values().map(Draft::bytes).sum();
        match bytes {
            MAX_DRAFT_BYTES.. => self.take_all(),
            _ => self
                .drafts
                .extract_if(.., |_, draft| draft.bytes() >= MAX_FILE_BYTES)
                .collect(),
        }
    }

    pub(crate) fn take_all(&mut self) -> BTreeMap<Place, Draft> {
        std::mem::take(&mut self.drafts)
    }
}
