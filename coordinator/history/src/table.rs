//! Reads the rows of a Parquet file. The columns of a kind are in its [`Shape`](crate::kind::Shape).

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::statistics::Statistics;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;
use reweave_common::moment::Moment;
use thiserror::Error;

use crate::kind::Kind;
use crate::row::{Gauge, Measures, Row};
use crate::series::{Series, name, parts};

/// The key of the names of replaced files, one per line.
pub(crate) const REPLACES_KEY: &str = "reweave.replaces";

#[derive(Debug, Error)]
pub enum TableError {
    #[error("it cannot be written as Parquet")]
    Encode(#[source] ParquetError),
    #[error("it is not a readable Parquet file")]
    Decode(#[source] ParquetError),
    #[error("it is not as it was written: its checksum is another one")]
    Changed,
    #[error("it does not have the columns of {kind}")]
    OtherColumns { kind: &'static str },
}

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    pub(crate) replaces: Vec<String>,
}

impl Table {
    /// Decodes the row groups that may have rows of this time span. Other rows of these groups are included.
    pub(crate) fn decode(
        kind: Kind,
        content: Bytes,
        time: &Range<Moment>,
    ) -> Result<Self, TableError> {
        let file = opened(kind, content)?;
        let metadata = file.metadata().file_metadata();
        let mut table = Self {
            replaces: replaced(metadata.key_value_metadata()),
            rows: Vec::new(),
        };
        for index in 0..file.num_row_groups() {
            let group = file.get_row_group(index).map_err(TableError::Decode)?;
            let began = began(group.metadata());
            if began.is_some_and(|[first, last]| last < time.start || first >= time.end) {
                continue;
            }
            let rows = ColumnReader::new(&*group)
                .rows(kind)
                .map_err(TableError::Decode)?;
            table.rows.extend(rows);
        }
        Ok(table)
    }
}

/// Returns the times of the first and the last window in a file, by the statistics of its groups.
pub(crate) fn reach(kind: Kind, content: Bytes) -> Result<Option<[Moment; 2]>, TableError> {
    let file = opened(kind, content)?;
    let groups = file.metadata().row_groups().iter();
    let both = |[a, b]: [Moment; 2], [c, d]: [Moment; 2]| [a.min(c), b.max(d)];
    Ok(groups.filter_map(began).reduce(both))
}

fn opened(kind: Kind, content: Bytes) -> Result<SerializedFileReader<Bytes>, TableError> {
    let file = SerializedFileReader::new(content).map_err(TableError::Decode)?;
    let expected = schema(kind).map_err(TableError::Decode)?;
    if same_columns(file.metadata().file_metadata().schema(), &expected) {
        Ok(file)
    } else {
        Err(TableError::OtherColumns { kind: kind.name() })
    }
}

/// Returns the first and the last time of a group, by the statistics of its first column.
fn began(group: &RowGroupMetaData) -> Option<[Moment; 2]> {
    let Statistics::Int64(began) = group.columns().first()?.statistics()? else {
        return None;
    };
    let moment = |value: &i64| Some(Moment::from_micros(u64::try_from(*value).ok()?));
    Some([moment(began.min_opt()?)?, moment(began.max_opt()?)?])
}

fn replaced(metadata: Option<&Vec<KeyValue>>) -> Vec<String> {
    let mut all = metadata.into_iter().flatten();
    let value = all
        .find(|pair| pair.key == REPLACES_KEY)
        .and_then(|pair| pair.value.as_deref());
    value
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

pub(crate) fn schema(kind: Kind) -> Result<Type, ParquetError> {
    let shape = kind.shape();
    let mut columns = vec!["required int64 began (TIMESTAMP(MICROS,true))".to_owned()];
    let text = |name: &&str| format!("binary {name} (STRING)");
    columns.extend(
        shape
            .keys
            .iter()
            .map(|key| format!("required {}", text(key))),
    );
    columns.push("required int64 readings".to_owned());
    for gauge in shape.gauges {
        columns.push(format!("optional int64 {gauge}_min"));
        columns.push(format!("optional double {gauge}_mean"));
        columns.push(format!("optional int64 {gauge}_max"));
    }
    columns.extend(
        shape
            .counters
            .iter()
            .map(|name| format!("optional int64 {name}")),
    );
    columns.extend(
        shape
            .texts
            .iter()
            .map(|name| format!("optional {}", text(name))),
    );
    parse_message_type(&format!(
        "message {} {{ {}; }}",
        kind.name(),
        columns.join("; ")
    ))
}

/// Whether the file has the expected columns with these names and types, in this order.
fn same_columns(found: &Type, expected: &Type) -> bool {
    let columns = |of: &Type| -> Vec<_> {
        let fields = of.get_fields().iter();
        fields
            .map(|field| {
                let physical = field.is_primitive().then(|| field.get_physical_type());
                (field.name().to_owned(), physical, field.is_optional())
            })
            .collect()
    };
    columns(found) == columns(expected)
}

/// Reads the columns of a row group, one after the other.
struct ColumnReader<'g> {
    group: &'g dyn RowGroupReader,
    next: usize,
    count: usize,
}

impl<'g> ColumnReader<'g> {
    fn new(group: &'g dyn RowGroupReader) -> Self {
        let count = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        Self {
            group,
            next: 0,
            count,
        }
    }

    fn rows(mut self, kind: Kind) -> Result<Vec<Row>, ParquetError> {
        let shape = kind.shape();
        let at = self.whole()?;
        let keys = self.each(shape.keys.len(), Self::texts)?;
        let readings = self.whole()?;
        let mut gauges = self.each(shape.gauges.len(), Self::gauge)?;
        let mut counters = self.each(shape.counters.len(), Self::whole)?;
        let mut texts = self.each(shape.texts.len(), Self::texts)?;
        let mut names = Names::default();
        let row = |index: usize| {
            let count = unsigned(readings[index]);
            let name = names.of(&keys, index);
            Row {
                at: Moment::from_micros(unsigned(at[index])),
                series: Series { kind, name },
                measures: Measures {
                    readings: count,
                    gauges: cells(&mut gauges, index).map(|gauge| gauge.of(count)),
                    counters: cells(&mut counters, index),
                    texts: cells(&mut texts, index),
                },
            }
        };
        Ok((0..self.count).map(row).collect())
    }

    fn each<T>(
        &mut self,
        columns: usize,
        mut read: impl FnMut(&mut Self) -> Result<Vec<T>, ParquetError>,
    ) -> Result<Vec<Vec<T>>, ParquetError> {
        (0..columns).map(|_| read(self)).collect()
    }

    fn whole(&mut self) -> Result<Vec<Option<i64>>, ParquetError> {
        self.column::<Int64Type>()
    }

    fn texts(&mut self) -> Result<Vec<Option<Arc<str>>>, ParquetError> {
        let values = self.column::<ByteArrayType>()?.into_iter();
        let text = |value: ByteArray| Ok(Arc::from(value.as_utf8()?));
        values.map(|value| value.map(text).transpose()).collect()
    }

    fn gauge(&mut self) -> Result<Vec<Figures>, ParquetError> {
        let least = self.whole()?;
        let means = self.column::<DoubleType>()?;
        let most = self.whole()?;
        let figures = least.into_iter().zip(means).zip(most);
        Ok(figures
            .map(|((least, mean), most)| Figures { least, mean, most })
            .collect())
    }

    fn column<T: DataType>(&mut self) -> Result<Vec<Option<T::T>>, ParquetError> {
        let reader = self.group.get_column_reader(self.next)?;
        let mut reader = parquet::column::reader::get_typed_column_reader::<T>(reader);
        self.next += 1;
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        let (records, ..) =
            reader.read_records(self.count, Some(&mut levels), None, &mut values)?;
        if records != self.count {
            let problem = format!("a column ends after {records} of {} rows", self.count);
            return Err(ParquetError::General(problem));
        }
        Ok(spread_out(values, &levels, self.count))
    }
}

/// Places values at their rows. A required column has no levels: every row has a value.
fn spread_out<T>(values: Vec<T>, levels: &[i16], count: usize) -> Vec<Option<T>> {
    let mut values = values.into_iter();
    let present = |row: usize| levels.get(row).is_none_or(|&level| level > 0);
    (0..count)
        .map(|row| present(row).then(|| values.next()).flatten())
        .collect()
}

/// Returns the values of a row, one per column, and default values beyond the columns.
fn cells<T: Default, const N: usize>(columns: &mut [Vec<T>], row: usize) -> [T; N] {
    let mut columns = columns.iter_mut();
    let mut cell = || Some(std::mem::take(&mut columns.next()?[row]));
    std::array::from_fn(|_| cell().unwrap_or_default())
}

/// The names of series, shared because the same names are frequent.
#[derive(Default)]
struct Names {
    last: Arc<str>,
}

impl Names {
    fn of(&mut self, keys: &[Vec<Option<Arc<str>>>], row: usize) -> Arc<str> {
        let values = || {
            keys.iter()
                .map(|key| key[row].as_deref().unwrap_or_default())
        };
        if !parts(&self.last).eq(values()) {
            let values: Vec<_> = values().collect();
            let values: Vec<_> = values.iter().map(|value| value as &dyn Display).collect();
            self.last = name(&values);
        }
        Arc::clone(&self.last)
    }
}

fn unsigned(value: Option<i64>) -> u64 {
    value
        .and_then(|value| u64::try_from(value).ok())
        .unwrap_or(0)
}

/// The columns of a gauge in a file.
#[derive(Default)]
struct Figures {
    least: Option<i64>,
    mean: Option<f64>,
    most: Option<i64>,
}

impl Figures {
    fn of(&self, readings: u64) -> Gauge {
        let count = readings.max(1);
        let gauge = || {
            Some(Gauge {
                least: self.least?,
                most: self.most?,
                sum: self.mean? * count as f64,
                count,
            })
        };
        gauge().unwrap_or_default()
    }
}
