//! Writes Parquet files.

use std::sync::Arc;

use diode_core::{Dataset, Solution};
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

use super::super::{COLUMNS, Cell, Column, ColumnType, WIDTH, place, writer, written};
use super::{DATASETS_KEY, DatasetMetadata};
use crate::rows::writer::whole_nanos;

/// After this many rows, the next problem begins a new row group. Readers and writers hold one
/// group at a time. Larger groups compress better but need more memory.
const ROW_GROUP: usize = 1 << 15;

pub(crate) fn encode(datasets: &[Dataset]) -> Vec<u8> {
    write(datasets).expect("the columns match the schema and are written into memory")
}

fn write(datasets: &[Dataset]) -> Result<Vec<u8>, ParquetError> {
    let about: Vec<DatasetMetadata> = (0..)
        .zip(datasets)
        .map(|(number, dataset)| DatasetMetadata {
            dataset: number,
            hardware: dataset.hardware.clone(),
            provenance: dataset.provenance.clone(),
        })
        .collect();
    let about = serde_json::to_string(&about).expect("maps have text keys");
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(concat!("diode ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(vec![KeyValue::new(DATASETS_KEY.to_owned(), about)]))
        .build();
    let mut written = written(datasets);
    // Where all times are whole nanoseconds, milliseconds would say the same in twice the bytes.
    written[place("time_ms")] = datasets.iter().flat_map(|dataset| &dataset.solutions).any(has_fractions);
    let schema = Arc::new(parse_message_type(&schema(&written))?);
    let file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let group = std::cell::RefCell::new(RowGroup {
        columns: COLUMNS.each_ref().map(Values::new),
        written,
        rows: 0,
        file,
    });
    writer::rows(
        datasets,
        |row| {
            group.borrow_mut().add(row);
            Ok(())
        },
        || group.borrow_mut().end_problem(),
    )?;
    let mut group = group.into_inner();
    group.flush()?;
    group.file.into_inner()
}

/// Whether a time of the solution is no whole number of nanoseconds.
fn has_fractions(solution: &Solution) -> bool {
    (0..solution.configs.len()).any(|row| whole_nanos(&solution.times, row).is_none())
}

fn schema(written: &[bool; WIDTH]) -> String {
    let field = |column: &Column| {
        let repetition = if column.full { "REQUIRED" } else { "OPTIONAL" };
        let (kind, annotation) = match column.kind {
            ColumnType::Text => ("BYTE_ARRAY", " (STRING)"),
            ColumnType::Number => ("INT64", " (INTEGER(64,false))"),
            ColumnType::Flag => ("BOOLEAN", ""),
            ColumnType::Real => ("DOUBLE", ""),
        };
        format!("{repetition} {kind} {}{annotation};", column.name)
    };
    let fields: Vec<String> = COLUMNS
        .iter()
        .zip(written)
        .filter(|(_, written)| **written)
        .map(|(column, _)| field(column))
        .collect();
    format!("message timings {{ {} }}", fields.join(" "))
}

/// The rows that are not written yet.
struct RowGroup {
    columns: [Values; WIDTH],
    written: [bool; WIDTH],
    rows: usize,
    file: SerializedFileWriter<Vec<u8>>,
}

impl RowGroup {
    fn add(&mut self, row: &[Cell<'_>; WIDTH]) {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.push(cell);
        }
        self.rows += 1;
    }

    fn end_problem(&mut self) -> Result<(), ParquetError> {
        if self.rows >= ROW_GROUP { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        let columns = COLUMNS.iter().zip(&mut self.columns).zip(self.written);
        for ((column, values), _) in columns.filter(|(_, written)| *written) {
            if let Some(writer) = group.next_column()? {
                std::mem::replace(values, Values::new(column)).write(writer)?;
            }
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}

/// The values of one column, and which rows have a value.
struct Values {
    present: Option<Vec<i16>>,
    data: Data,
}

enum Data {
    Text { values: Vec<ByteArray>, last: String },
    Number(Vec<i64>),
    Flag(Vec<bool>),
    Real(Vec<f64>),
}

impl Values {
    fn new(column: &Column) -> Self {
        let data = match column.kind {
            ColumnType::Text => Data::Text { values: Vec::new(), last: String::new() },
            ColumnType::Number => Data::Number(Vec::new()),
            ColumnType::Flag => Data::Flag(Vec::new()),
            ColumnType::Real => Data::Real(Vec::new()),
        };
        Self { present: (!column.full).then(Vec::new), data }
    }

    fn push(&mut self, cell: &Cell<'_>) {
        if let Some(present) = &mut self.present {
            present.push(i16::from(*cell != Cell::Empty));
        }
        match (&mut self.data, *cell) {
            (_, Cell::Empty) => {}
            (Data::Text { values, last }, Cell::Text(text)) => {
                // Texts repeat from row to row. Equal texts share their bytes.
                let shared = values.last().filter(|_| last == text).cloned();
                values.push(shared.unwrap_or_else(|| ByteArray::from(text)));
                text.clone_into(last);
            }
            // The column is unsigned, so the conversion changes no bits.
            (Data::Number(values), Cell::Number(number)) => values.push(number as i64),
            (Data::Flag(values), Cell::Flag(flag)) => values.push(flag),
            (Data::Real(values), Cell::Real(real)) => values.push(real),
            (_, cell) => unreachable!("the writer of rows keeps to the kinds of the columns: {cell:?}"),
        }
    }

    fn write(self, mut writer: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let present = self.present.as_deref();
        match &self.data {
            Data::Text { values, .. } => {
                writer.typed::<ByteArrayType>().write_batch(values, present, None)?
            }
            Data::Number(values) => writer.typed::<Int64Type>().write_batch(values, present, None)?,
            Data::Flag(values) => writer.typed::<BoolType>().write_batch(values, present, None)?,
            Data::Real(values) => writer.typed::<DoubleType>().write_batch(values, present, None)?,
        };
        writer.close()
    }
}
