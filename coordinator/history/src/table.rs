//! Rows to a Parquet file and back. Which columns a kind has is in [`Shape`].

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, Type};
use reweave_common::moment::Moment;
use thiserror::Error;

use crate::entry::Series;
use crate::kind::{Kind, Shape};
use crate::row::{Gauge, Measures, Row, Sum};

/// Names of files that the rows of this one took the place of, a line each.
const REPLACES: &str = "reweave.replaces";

/// Of the different numbers of a column: some two thousand.
const MOST_VALUES_BYTES: usize = 16 * 1024;

#[derive(Debug, Error)]
pub enum TableError {
    #[error("it cannot be written as Parquet")]
    Encode(#[source] ParquetError),
    #[error("it is no Parquet file that can be read")]
    Decode(#[source] ParquetError),
    #[error("it is not as it was written: its checksum is another one")]
    Changed,
    #[error("it does not have the columns of {kind}")]
    OtherColumns { kind: &'static str },
}

/// What a file holds.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    pub(crate) replaces: Vec<String>,
}

impl Table {
    pub(crate) fn encode(&self, kind: Kind) -> Result<Bytes, TableError> {
        self.write(kind)
            .map(Bytes::from)
            .map_err(TableError::Encode)
    }

    fn write(&self, kind: Kind) -> Result<Vec<u8>, ParquetError> {
        let schema = Arc::new(schema(kind)?);
        let properties = Arc::new(self.properties(&schema));
        let mut file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
        let mut group = file.next_row_group()?;
        let shape = kind.shape();
        write_whole(
            &mut group,
            self.rows.iter().map(|row| Some(micros(row.at))),
            true,
        )?;
        self.write_keys(&mut group, shape)?;
        let readings = self.rows.iter().map(|row| row.measures.readings as i64);
        write_whole(&mut group, readings.map(Some), true)?;
        for index in 0..shape.gauges.len() {
            self.write_gauge(&mut group, index)?;
        }
        for index in 0..shape.counters.len() {
            let counters = self.rows.iter().map(|row| row.measures.counters[index]);
            write_whole(&mut group, counters, false)?;
        }
        for index in 0..shape.texts.len() {
            let texts = self
                .rows
                .iter()
                .map(|row| row.measures.texts[index].as_deref());
            write_texts(&mut group, texts, false)?;
        }
        group.close()?;
        file.into_inner()
    }

    /// Where there are few different values, each is kept once. Beyond that, of whole numbers the
    /// differences are kept, since neighbouring rows are alike, and of others each byte beside its
    /// like.
    fn properties(&self, schema: &Type) -> WriterProperties {
        let replaces = (!self.replaces.is_empty())
            .then(|| vec![KeyValue::new(REPLACES.to_owned(), self.replaces.join("\n"))]);
        let common = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("reweave".to_owned())
            .set_key_value_metadata(replaces)
            .set_max_row_group_row_count(None);
        let columns = schema.get_fields().iter();
        let properties = columns.fold(common, |properties, column| {
            let path = ColumnPath::from(column.name());
            let encoding = match column.get_physical_type() {
                Physical::INT64 => Encoding::DELTA_BINARY_PACKED,
                Physical::DOUBLE => Encoding::BYTE_STREAM_SPLIT,
                _ => return properties,
            };
            properties
                .set_column_dictionary_page_size_limit(path.clone(), MOST_VALUES_BYTES)
                .set_column_encoding(path, encoding)
        });
        properties.build()
    }

    fn write_keys(&self, group: &mut Group<'_>, shape: &Shape) -> Result<(), ParquetError> {
        for index in 0..shape.keys.len() {
            let part = self.rows.iter().map(|row| row.series.parts().nth(index));
            write_texts(group, part.map(|part| part.or(Some(""))), true)?;
        }
        Ok(())
    }

    fn write_gauge(&self, group: &mut Group<'_>, index: usize) -> Result<(), ParquetError> {
        let gauges = || self.rows.iter().map(|row| row.measures.gauges[index]);
        write_whole(group, gauges().map(|gauge| Some(gauge?.least)), false)?;
        let means = gauges().map(|gauge| Some(gauge?.mean()));
        write_column::<DoubleType>(group, means, false)?;
        write_whole(group, gauges().map(|gauge| Some(gauge?.most)), false)
    }

    pub(crate) fn decode(kind: Kind, content: Bytes) -> Result<Self, TableError> {
        let file = SerializedFileReader::new(content).map_err(TableError::Decode)?;
        let expected = schema(kind).map_err(TableError::Decode)?;
        let metadata = file.metadata().file_metadata();
        if !same_columns(metadata.schema(), &expected) {
            return Err(TableError::OtherColumns { kind: kind.name() });
        }
        let mut table = Self {
            replaces: replaced(metadata.key_value_metadata()),
            rows: Vec::new(),
        };
        for index in 0..file.num_row_groups() {
            let group = file.get_row_group(index).map_err(TableError::Decode)?;
            let rows = Columns::new(&*group)
                .rows(kind)
                .map_err(TableError::Decode)?;
            table.rows.extend(rows);
        }
        Ok(table)
    }
}

fn micros(at: Moment) -> i64 {
    i64::try_from(at.as_micros()).unwrap_or(i64::MAX)
}

fn replaced(metadata: Option<&Vec<KeyValue>>) -> Vec<String> {
    let mut all = metadata.into_iter().flatten();
    let value = all
        .find(|pair| pair.key == REPLACES)
        .and_then(|pair| pair.value.as_deref());
    value
        .unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn schema(kind: Kind) -> Result<Type, ParquetError> {
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

/// Whether the columns that are read are there under these names and types, in this order.
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

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn write_whole(
    group: &mut Group<'_>,
    values: impl Iterator<Item = Option<i64>>,
    required: bool,
) -> Result<(), ParquetError> {
    write_column::<Int64Type>(group, values, required)
}

fn write_texts<'r>(
    group: &mut Group<'_>,
    values: impl Iterator<Item = Option<&'r str>>,
    required: bool,
) -> Result<(), ParquetError> {
    write_column::<ByteArrayType>(
        group,
        values.map(|text| Some(ByteArray::from(text?))),
        required,
    )
}

fn write_column<T: DataType>(
    group: &mut Group<'_>,
    values: impl Iterator<Item = Option<T::T>>,
    required: bool,
) -> Result<(), ParquetError> {
    let mut levels = Vec::new();
    let mut present = Vec::new();
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    let missing = || ParquetError::General("a column is missing".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let levels = (!required).then_some(&*levels);
    column.typed::<T>().write_batch(&present, levels, None)?;
    column.close()
}

/// Reads the columns of a row group, one after the other.
struct Columns<'g> {
    group: &'g dyn RowGroupReader,
    next: usize,
    count: usize,
}

impl<'g> Columns<'g> {
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
        let gauges = self.each(shape.gauges.len(), Self::gauge)?;
        let counters = self.each(shape.counters.len(), Self::whole)?;
        let texts = self.each(shape.texts.len(), Self::texts)?;
        let row = |index: usize| {
            let count = unsigned(readings[index]);
            Row {
                at: Moment::from_micros(unsigned(at[index])),
                series: series(kind, &keys, index),
                measures: Measures {
                    readings: count,
                    gauges: gauges.iter().map(|gauge| gauge[index].of(count)).collect(),
                    counters: counters.iter().map(|counter| counter[index]).collect(),
                    texts: texts.iter().map(|text| text[index].clone()).collect(),
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

/// Values at their rows. A required column has no levels: every row has a value.
fn spread_out<T>(values: Vec<T>, levels: &[i16], count: usize) -> Vec<Option<T>> {
    let mut values = values.into_iter();
    let present = |row: usize| levels.get(row).is_none_or(|&level| level > 0);
    (0..count)
        .map(|row| present(row).then(|| values.next()).flatten())
        .collect()
}

fn series(kind: Kind, keys: &[Vec<Option<Arc<str>>>], index: usize) -> Series {
    let parts: Vec<&str> = keys
        .iter()
        .map(|key| key[index].as_deref().unwrap_or_default())
        .collect();
    let parts: Vec<_> = parts
        .iter()
        .map(|part| part as &dyn std::fmt::Display)
        .collect();
    Series::new(kind, &parts)
}

fn unsigned(value: Option<i64>) -> u64 {
    value
        .and_then(|value| u64::try_from(value).ok())
        .unwrap_or(0)
}

/// A gauge as it is written.
struct Figures {
    least: Option<i64>,
    mean: Option<f64>,
    most: Option<i64>,
}

impl Figures {
    fn of(&self, readings: u64) -> Option<Gauge> {
        let count = readings.max(1);
        Some(Gauge {
            least: self.least?,
            most: self.most?,
            sum: Sum::Rounded(self.mean? * count as f64),
            count,
        })
    }
}
