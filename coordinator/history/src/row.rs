//! One line of a table: a series over one stretch of time.

use std::sync::Arc;

use reweave_common::moment::Moment;

use crate::entry::Series;

/// How a figure varied: exact however its parts are put together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Gauge {
    pub(crate) least: i64,
    pub(crate) most: i64,
    pub(crate) sum: Sum,
    pub(crate) count: u64,
}

/// Whole as long as it was counted here; what was read back is a mean, times how many made it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Sum {
    Exact(i128),
    Rounded(f64),
}

impl Sum {
    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => Self::Exact(a.saturating_add(b)),
            (a, b) => Self::Rounded(a.as_f64() + b.as_f64()),
        }
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::Exact(sum) => sum as f64,
            Self::Rounded(sum) => sum,
        }
    }
}

impl Gauge {
    pub(crate) fn of(value: i64) -> Self {
        Self {
            least: value,
            most: value,
            sum: Sum::Exact(value.into()),
            count: 1,
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        self.sum.as_f64() / self.count as f64
    }

    fn merge(&mut self, other: &Self) {
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.sum = self.sum.plus(other.sum);
        self.count += other.count;
    }
}

/// What was measured, once or many times.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Measures {
    pub(crate) readings: u64,
    pub(crate) gauges: Vec<Option<Gauge>>,
    pub(crate) counters: Vec<Option<i64>>,
    pub(crate) texts: Vec<Option<Arc<str>>>,
}

impl Measures {
    /// Takes in what was measured afterwards.
    pub(crate) fn merge(&mut self, later: &Self) {
        self.readings += later.readings;
        for (gauge, later) in self.gauges.iter_mut().zip(&later.gauges) {
            match (gauge, later) {
                (Some(gauge), Some(later)) => gauge.merge(later),
                (gauge @ None, later) => *gauge = *later,
                (Some(_), None) => {}
            }
        }
        for (counter, later) in self.counters.iter_mut().zip(&later.counters) {
            *counter = later.or(*counter);
        }
        for (text, later) in self.texts.iter_mut().zip(&later.texts) {
            if later.is_some() {
                text.clone_from(later);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// When the stretch began.
    pub(crate) at: Moment,
    pub(crate) series: Series,
    pub(crate) measures: Measures,
}

/// Rows in the order of their series, each series in the order of time; what was said twice of one
/// stretch becomes one row. Neighbours are alike then, and take little room.
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
