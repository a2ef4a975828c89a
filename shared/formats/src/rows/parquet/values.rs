//! Decodes columns of Parquet in batches, and hands their values out row by row.

use parquet::basic::{ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

use super::super::Cell;
use super::in_words;

/// A batch of one column.
pub(super) struct Values {
    column: Typed,
    /// For each row, whether it has a value. Empty if all rows have one.
    present: Vec<i16>,
    optional: bool,
    row: usize,
    value: usize,
}

enum Typed {
    Text(ColumnReaderImpl<parquet::data_type::ByteArrayType>, Vec<ByteArray>),
    Flag(ColumnReaderImpl<parquet::data_type::BoolType>, Vec<bool>),
    Int(ColumnReaderImpl<parquet::data_type::Int32Type>, Vec<i32>, Sign),
    Long(ColumnReaderImpl<parquet::data_type::Int64Type>, Vec<i64>, Sign),
    Float(ColumnReaderImpl<parquet::data_type::FloatType>, Vec<f32>),
    Double(ColumnReaderImpl<parquet::data_type::DoubleType>, Vec<f64>),
}

/// Whether the highest bit of an integer is its sign.
#[derive(Clone, Copy, PartialEq)]
enum Sign {
    Signed,
    Unsigned,
}

impl Values {
    pub(super) fn new(reader: ColumnReader, descriptor: &ColumnDescriptor) -> Result<Self, String> {
        let unsigned = matches!(
            descriptor.logical_type_ref(),
            Some(LogicalType::Integer(integer)) if !integer.is_signed
        ) || matches!(
            descriptor.converted_type(),
            ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
        );
        let sign = if unsigned { Sign::Unsigned } else { Sign::Signed };
        let column = match reader {
            ColumnReader::ByteArrayColumnReader(reader) => Typed::Text(reader, Vec::new()),
            ColumnReader::BoolColumnReader(reader) => Typed::Flag(reader, Vec::new()),
            ColumnReader::Int32ColumnReader(reader) => Typed::Int(reader, Vec::new(), sign),
            ColumnReader::Int64ColumnReader(reader) => Typed::Long(reader, Vec::new(), sign),
            ColumnReader::FloatColumnReader(reader) => Typed::Float(reader, Vec::new()),
            ColumnReader::DoubleColumnReader(reader) => Typed::Double(reader, Vec::new()),
            _ => {
                return Err(format!(
                    "column `{}`: got {}, expected text, numbers or booleans",
                    descriptor.name(),
                    descriptor.physical_type()
                ));
            }
        };
        let optional = descriptor.max_def_level() > 0;
        Ok(Self { column, present: Vec::new(), optional, row: 0, value: 0 })
    }

    /// Decodes the next rows.
    pub(super) fn next(&mut self, count: usize) -> Result<(), String> {
        (self.row, self.value) = (0, 0);
        self.present.clear();
        let present = self.optional.then_some(&mut self.present);
        let read = match &mut self.column {
            Typed::Text(reader, values) => fill(reader, values, present, count),
            Typed::Flag(reader, values) => fill(reader, values, present, count),
            Typed::Int(reader, values, _) => fill(reader, values, present, count),
            Typed::Long(reader, values, _) => fill(reader, values, present, count),
            Typed::Float(reader, values) => fill(reader, values, present, count),
            Typed::Double(reader, values) => fill(reader, values, present, count),
        }
        .map_err(in_words)?;
        if read == count { Ok(()) } else { Err(format!("{read} more rows, expected {count}")) }
    }

    /// The next row's cell.
    pub(super) fn cell(&mut self) -> Result<Cell<'_>, String> {
        let row = self.row;
        self.row += 1;
        if self.optional && self.present.get(row).is_none_or(|&level| level == 0) {
            return Ok(Cell::Empty);
        }
        let value = self.value;
        self.value += 1;
        let cell = match &self.column {
            Typed::Text(_, values) => match values.get(value) {
                Some(bytes) => {
                    let text = std::str::from_utf8(bytes.data());
                    Some(Cell::Text(text.map_err(|_| "bytes that are not UTF-8 text".to_owned())?))
                }
                None => None,
            },
            Typed::Flag(_, values) => values.get(value).map(|&flag| Cell::Flag(flag)),
            Typed::Int(_, values, Sign::Unsigned) => {
                values.get(value).map(|&number| Cell::Number((number as u32).into()))
            }
            Typed::Int(_, values, Sign::Signed) => values.get(value).map(|&number| signed(number.into())),
            Typed::Long(_, values, Sign::Unsigned) => {
                values.get(value).map(|&number| Cell::Number(number as u64))
            }
            Typed::Long(_, values, Sign::Signed) => values.get(value).map(|&number| signed(number)),
            Typed::Float(_, values) => values.get(value).map(|&real| Cell::Real(real.into())),
            Typed::Double(_, values) => values.get(value).map(|&real| Cell::Real(real)),
        };
        cell.ok_or_else(|| "fewer values than rows".to_owned())
    }
}

/// No column accepts a negative number. It is passed on as a real number, so that the error shows
/// its value.
fn signed(number: i64) -> Cell<'static> {
    u64::try_from(number).map_or(Cell::Real(number as f64), Cell::Number)
}

fn fill<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    values: &mut Vec<T::T>,
    present: Option<&mut Vec<i16>>,
    count: usize,
) -> Result<usize, ParquetError> {
    values.clear();
    let (rows, _, _) = reader.read_records(count, present, None, values)?;
    Ok(rows)
}
