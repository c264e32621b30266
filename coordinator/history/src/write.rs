//! Writes rows to a Parquet file, group by group.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};
use reweave_common::moment::Moment;

use crate::draft::Sheet;
use crate::kind::Kind;
use crate::row::{Gauge, whole};
use crate::series::parts;
use crate::table::{REPLACES_KEY, TableError, schema};

/// The maximum size of the dictionary of a column: some two thousand numbers.
const MAX_DICTIONARY_BYTES: usize = 16 * 1024;

pub(crate) struct Writer {
    kind: Kind,
    file: SerializedFileWriter<Vec<u8>>,
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

impl Writer {
    pub(crate) fn new(kind: Kind, replaces: &[String]) -> Result<Self, TableError> {
        let file = begin(kind, replaces).map_err(TableError::Encode)?;
        Ok(Self { kind, file })
    }

    pub(crate) fn write(&mut self, sheet: &Sheet) -> Result<(), TableError> {
        let mut group = self.file.next_row_group().map_err(TableError::Encode)?;
        let order = sheet.order();
        let sorted = Sorted {
            sheet,
            order: &order,
        };
        let written = sorted.write(self.kind, &mut group);
        let closed = written.and_then(|()| group.close());
        closed.map(drop).map_err(TableError::Encode)
    }

    /// Returns the bytes written so far.
    pub(crate) fn bytes(&self) -> usize {
        self.file.bytes_written()
    }

    pub(crate) fn finish(self) -> Result<Bytes, TableError> {
        let content = self.file.into_inner().map_err(TableError::Encode)?;
        Ok(content.into())
    }
}

fn begin(kind: Kind, replaces: &[String]) -> Result<SerializedFileWriter<Vec<u8>>, ParquetError> {
    let schema = Arc::new(schema(kind)?);
    let properties = Arc::new(properties(&schema, replaces));
    SerializedFileWriter::new(Vec::new(), schema, properties)
}

/// Returns the encodings. Columns with few different values use a dictionary. Other columns of whole numbers store
/// differences, because neighbouring rows are similar. Other columns store each byte beside the same byte of the other
/// values.
fn properties(schema: &Type, replaces: &[String]) -> WriterProperties {
    let replaces = (!replaces.is_empty())
        .then(|| vec![KeyValue::new(REPLACES_KEY.to_owned(), replaces.join("\n"))]);
    let common = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
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
            .set_column_dictionary_page_size_limit(path.clone(), MAX_DICTIONARY_BYTES)
            .set_column_encoding(path, encoding)
    });
    properties.build()
}

/// The rows in the order of writing.
struct Sorted<'s> {
    sheet: &'s Sheet,
    order: &'s [usize],
}

impl Sorted<'_> {
    fn write(&self, kind: Kind, group: &mut Group<'_>) -> Result<(), ParquetError> {
        let Sheet {
            began, measures, ..
        } = self.sheet;
        write_all::<Int64Type>(group, &self.each(began, |&at| micros(at)))?;
        for part in self.parts(kind.shape().keys.len()) {
            write_all::<ByteArrayType>(group, &part)?;
        }
        write_all::<Int64Type>(group, &self.each(&measures.readings, |&it| whole(it)))?;
        for gauges in &measures.gauges {
            self.write_gauges(group, gauges)?;
        }
        for counters in &measures.counters {
            write_some::<Int64Type>(group, self.order.iter().map(|&row| counters[row]))?;
        }
        for texts in &measures.texts {
            let texts = || self.order.iter().map(|&row| texts[row].as_deref());
            let mut slices = Slices::of(texts().flatten());
            write_some::<ByteArrayType>(group, texts().map(|text| Some(slices.next(text?))))?;
        }
        Ok(())
    }

    fn each<T, V>(&self, column: &[T], value: impl Fn(&T) -> V) -> Vec<V> {
        self.order.iter().map(|&row| value(&column[row])).collect()
    }

    /// Returns the columns of the keys. Each name has a part for each key.
    fn parts(&self, keys: usize) -> Vec<Vec<ByteArray>> {
        let names = || self.order.iter().map(|&row| &*self.sheet.names[row]);
        let mut slices = Slices::of(names());
        let mut columns = vec![Vec::with_capacity(self.order.len()); keys];
        for name in names() {
            for (column, part) in columns.iter_mut().zip(parts(name)) {
                column.push(slices.next(part));
            }
        }
        columns
    }

    fn write_gauges(&self, group: &mut Group<'_>, gauges: &[Gauge]) -> Result<(), ParquetError> {
        let said = || self.order.iter().map(|&row| gauges[row].said());
        write_some::<Int64Type>(group, said().map(|gauge| Some(gauge?.least)))?;
        write_some::<DoubleType>(group, said().map(|gauge| Some(gauge?.mean())))?;
        write_some::<Int64Type>(group, said().map(|gauge| Some(gauge?.most)))
    }
}

/// Texts in one buffer, with a separator after each text and after each part of a name.
struct Slices {
    all: Bytes,
    begin: usize,
}

impl Slices {
    fn of<'t>(texts: impl Iterator<Item = &'t str>) -> Self {
        let mut all = Vec::new();
        for text in texts {
            all.extend_from_slice(text.as_bytes());
            all.push(0);
        }
        let all = Bytes::from(all);
        Self { all, begin: 0 }
    }

    fn next(&mut self, text: &str) -> ByteArray {
        let begin = self.begin;
        self.begin += text.len() + 1;
        self.all.slice(begin..begin + text.len()).into()
    }
}

fn micros(at: Moment) -> i64 {
    whole(at.as_micros())
}

/// Writes a column with optional values.
fn write_some<T: DataType>(
    group: &mut Group<'_>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let mut levels = Vec::with_capacity(values.size_hint().0);
    let mut present = Vec::with_capacity(values.size_hint().0);
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    write_column::<T>(group, &present, Some(&levels))
}

fn write_all<T: DataType>(group: &mut Group<'_>, values: &[T::T]) -> Result<(), ParquetError> {
    write_column::<T>(group, values, None)
}

fn write_column<T: DataType>(
    group: &mut Group<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("a column is missing".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}
