//! Measurements of many series of one kind, column by column. A row has values for the columns of its kind, and none
//! for others.

use std::sync::Arc;

use crate::kind::Shape;
use crate::row::{Cell, Gauge, Measures};

#[derive(Debug)]
pub(crate) struct Columns {
    /// The number of readings of each row. A row with 0 readings is empty, whatever its other columns have.
    pub(crate) readings: Vec<u64>,
    pub(crate) gauges: Vec<Vec<Gauge>>,
    pub(crate) counters: Vec<Vec<Option<i64>>>,
    pub(crate) texts: Vec<Vec<Option<Arc<str>>>>,
}

/// A value for each column.
pub(crate) trait Values {
    fn readings(&self) -> u64;
    fn gauge(&self, column: usize) -> &Gauge;
    fn counter(&self, column: usize) -> &Option<i64>;
    fn text(&self, column: usize) -> &Option<Arc<str>>;
}

impl Values for Measures {
    fn readings(&self) -> u64 {
        self.readings
    }

    fn gauge(&self, column: usize) -> &Gauge {
        &self.gauges[column]
    }

    fn counter(&self, column: usize) -> &Option<i64> {
        &self.counters[column]
    }

    fn text(&self, column: usize) -> &Option<Arc<str>> {
        &self.texts[column]
    }
}

/// A reference to one row of the columns.
#[derive(Clone, Copy)]
pub(crate) struct RowOf<'c> {
    columns: &'c Columns,
    row: usize,
}

impl Values for RowOf<'_> {
    fn readings(&self) -> u64 {
        self.columns.readings[self.row]
    }

    fn gauge(&self, column: usize) -> &Gauge {
        &self.columns.gauges[column][self.row]
    }

    fn counter(&self, column: usize) -> &Option<i64> {
        &self.columns.counters[column][self.row]
    }

    fn text(&self, column: usize) -> &Option<Arc<str>> {
        &self.columns.texts[column][self.row]
    }
}

impl Columns {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self {
            readings: Vec::new(),
            gauges: vec![Vec::new(); shape.gauges.len()],
            counters: vec![Vec::new(); shape.counters.len()],
            texts: vec![Vec::new(); shape.texts.len()],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.readings.len()
    }

    /// Returns a row, or None if it is empty.
    pub(crate) fn row(&self, row: usize) -> Option<RowOf<'_>> {
        let said = self.readings.get(row).is_some_and(|&readings| readings > 0);
        said.then_some(RowOf { columns: self, row })
    }

    pub(crate) fn says_anything(&self) -> bool {
        self.readings.iter().any(|&readings| readings > 0)
    }

    /// Adds values to a row, and creates the rows up to it.
    pub(crate) fn take(&mut self, row: usize, later: &impl Values) {
        if self.row(row).is_some() {
            return self.change(row, later, true);
        }
        if row >= self.len() {
            self.grow(row + 1);
        }
        self.change(row, later, false);
    }

    pub(crate) fn push(&mut self, values: &impl Values) {
        self.take(self.len(), values);
    }

    fn change(&mut self, row: usize, later: &impl Values, goes_on: bool) {
        let before = if goes_on { self.readings[row] } else { 0 };
        self.readings[row] = before + later.readings();
        put(&mut self.gauges, row, goes_on, |column| later.gauge(column));
        put(&mut self.counters, row, goes_on, |column| {
            later.counter(column)
        });
        put(&mut self.texts, row, goes_on, |column| later.text(column));
    }

    fn grow(&mut self, rows: usize) {
        self.readings.resize(rows, 0);
        grow(&mut self.gauges, rows);
        grow(&mut self.counters, rows);
        grow(&mut self.texts, rows);
    }

    /// Empties a row.
    pub(crate) fn vacate(&mut self, row: usize) {
        if row < self.len() {
            self.change(row, &Measures::default(), false);
        }
    }

    /// Empties all rows. Their texts stay, because most are the same next time.
    pub(crate) fn hush(&mut self) {
        self.readings.fill(0);
    }

    /// Removes all rows.
    pub(crate) fn clear(&mut self) {
        self.readings.clear();
        self.gauges.iter_mut().for_each(Vec::clear);
        self.counters.iter_mut().for_each(Vec::clear);
        self.texts.iter_mut().for_each(Vec::clear);
    }
}

fn put<'v, C: Cell + 'v>(
    columns: &mut [Vec<C>],
    row: usize,
    goes_on: bool,
    later: impl Fn(usize) -> &'v C,
) {
    for (index, column) in columns.iter_mut().enumerate() {
        if goes_on {
            column[row].merge(later(index));
        } else {
            column[row].set(later(index));
        }
    }
}

fn grow<C: Cell>(columns: &mut [Vec<C>], rows: usize) {
    for column in columns {
        column.resize(rows, C::default());
    }
}
