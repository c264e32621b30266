//! A row of a table: one series over one time window.

use std::sync::Arc;

use reweave_common::moment::Moment;

use crate::kind::{MAX_COUNTERS, MAX_GAUGES, MAX_TEXTS};
use crate::series::Series;

/// Minimum, sum and maximum of a figure. Without a reading, it has no value.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Gauge {
    pub(crate) least: i64,
    pub(crate) most: i64,
    /// The sum is exact up to 2^53: nine million seconds at a thousand million each.
    pub(crate) sum: f64,
    pub(crate) count: u64,
}

impl Gauge {
    pub(crate) fn of(value: i64) -> Self {
        Self {
            least: value,
            most: value,
            sum: value as f64,
            count: 1,
        }
    }

    pub(crate) fn said(&self) -> Option<&Self> {
        (self.count > 0).then_some(self)
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

/// The value of a row in one column.
pub(crate) trait Cell: Clone + Default {
    /// Merges a later value.
    fn merge(&mut self, later: &Self);

    fn set(&mut self, value: &Self) {
        self.clone_from(value);
    }
}

impl Cell for Gauge {
    fn merge(&mut self, later: &Self) {
        if self.count == 0 {
            *self = *later;
        } else if later.count > 0 {
            self.least = self.least.min(later.least);
            self.most = self.most.max(later.most);
            self.sum += later.sum;
            self.count += later.count;
        }
    }
}

impl Cell for Option<i64> {
    fn merge(&mut self, later: &Self) {
        *self = later.or(*self);
    }
}

impl Cell for Option<Arc<str>> {
    fn merge(&mut self, later: &Self) {
        if later.is_some() {
            self.set(later);
        }
    }

    /// In most cases the text is already there.
    fn set(&mut self, value: &Self) {
        let is_same = match (&*self, value) {
            (Some(text), Some(value)) => Arc::ptr_eq(text, value),
            _ => false,
        };
        if !is_same {
            self.clone_from(value);
        }
    }
}

/// Measurements, single or merged, in the order of the columns of the kind. Columns beyond these are empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Measures {
    pub(crate) readings: u64,
    pub(crate) gauges: [Gauge; MAX_GAUGES],
    pub(crate) counters: [Option<i64>; MAX_COUNTERS],
    pub(crate) texts: [Option<Arc<str>>; MAX_TEXTS],
}

impl Measures {
    /// Merges later measurements.
    pub(crate) fn merge(&mut self, later: &Self) {
        self.readings += later.readings;
        merge(&mut self.gauges, &later.gauges);
        merge(&mut self.counters, &later.counters);
        merge(&mut self.texts, &later.texts);
    }
}

fn merge<C: Cell>(cells: &mut [C], later: &[C]) {
    let pairs = cells.iter_mut().zip(later);
    pairs.for_each(|(cell, later)| cell.merge(later));
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// The start of the window.
    pub(crate) at: Moment,
    pub(crate) series: Series,
    pub(crate) measures: Measures,
}

/// Sorts rows by series, and each series by time. Rows of the same series and window are merged.
pub(crate) fn in_order(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| (&a.series, a.at).cmp(&(&b.series, b.at)));
    rows.dedup_by(|later, row| {
        let same = later.series == row.series && later.at == row.at;
        if same {
            row.measures.merge(&later.measures);
        }
        same
    });
    rows
}

/// Converts a counter. No counter of an existing machine exceeds this type.
pub(crate) fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
