//! Files that are being filled. Rows wait until there are enough for a row group, and groups wait until there are
//! enough for a file. Both are bounded.

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

/// The number of rows in a group, which is written and read as a unit.
const ROWS_PER_GROUP: usize = 32_768;
/// The maximum number of waiting rows of all kinds together: some tens of megabytes.
const MAX_PENDING_ROWS: usize = 2 * ROWS_PER_GROUP;
/// The size from which a file is complete.
const MAX_FILE_BYTES: usize = 4 << 20;
/// The maximum size of all files that are being filled.
const MAX_DRAFT_BYTES: usize = 16 << 20;

/// Rows that wait to be written, column by column.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) began: Vec<Moment>,
    /// The names of the series.
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

    /// Returns the order in which rows are written: by series, and each series by time. Neighbouring rows are then
    /// similar and compress well. Rows of one window came in this order.
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

/// A file that can still take rows.
pub(crate) struct Draft {
    waiting: Sheet,
    file: Writer,
    rows: u64,
}

/// A complete file.
pub(crate) struct Made {
    pub(crate) content: Bytes,
    pub(crate) rows: u64,
}

impl Draft {
    /// Starts a file. `replaces` names the files whose rows it replaces.
    pub(crate) fn new(kind: Kind, replaces: &[String]) -> Result<Self, TableError> {
        Ok(Self {
            waiting: Sheet::new(kind),
            file: Writer::new(kind, replaces)?,
            rows: 0,
        })
    }

    /// Makes a complete file of these rows.
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

    /// Writes the waiting rows as a group.
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

/// The drafts, one for each place with rows.
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

    /// Writes waiting rows as groups if there are too many.
    pub(crate) fn relieve(&mut self) -> Result<(), TableError> {
        let waiting: usize = self.drafts.values().map(|draft| draft.waiting.len()).sum();
        match waiting {
            MAX_PENDING_ROWS.. => self.drafts.values_mut().try_for_each(Draft::settle),
            _ => Ok(()),
        }
    }

    /// Takes the drafts that are large enough for a file, or all drafts if their total is too large.
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
