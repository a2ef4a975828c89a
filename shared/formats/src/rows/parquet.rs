//! Rows as Parquet. Columns are decoded in batches, and their values handed out row by row.

mod write;

use std::fs::File;
use std::io;
use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use bytes::Bytes;
use diode_core::hardware::Hardware;
use diode_core::{Dataset, Provenance};
use parquet::basic::{ConvertedType, LogicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use crate::FormatError;
use crate::columnar::check_provenance;
use crate::limits::{
    FREE_PARQUET_ROWS, MAX_DATASETS, MAX_PARQUET_CHUNK, MAX_PARQUET_METADATA, MAX_PARQUET_ROWS_PER_BYTE,
};
use crate::rows::reader::Rows;
use crate::rows::{COLUMNS, Cell, WIDTH, check_columns, find_column};

pub(crate) use crate::rows::parquet::write::encode;

/// The key in the file's metadata whose value describes the datasets.
const DATASETS_KEY: &str = "diode.datasets";

/// What Parquet's metadata say about a dataset, because rows have no place for it.
#[derive(serde::Serialize, serde::Deserialize)]
struct DatasetMetadata {
    /// The dataset's number in the column `dataset`.
    dataset: u64,
    hardware: Hardware,
    #[serde(default)]
    provenance: Provenance,
}

fn in_words(error: ParquetError) -> String {
    let words = error.to_string();
    // The library's message names the compression that this program was built without.
    match words.split_once("Disabled feature at compile time: ") {
        Some((_, codec)) => format!("compressed with {codec}, expected zstd, snappy or no compression"),
        None => words,
    }
}

/// Rows decoded at a time.
const BATCH: usize = 4096;

pub(crate) fn decode(file: File) -> Result<Vec<Dataset>, FormatError> {
    let mut rows = 0;
    // The library panics on some damaged files.
    let result = catch_panic(|| read(file, &mut rows))
        .unwrap_or_else(|| Err("damaged in a way that Parquet's library does not survive".to_owned()));
    result.map_err(|cause| FormatError::Malformed {
        state: "invalid",
        encoding: "Parquet",
        at: format!("row {rows}"),
        place: String::new(),
        // Messages of the library may have several lines.
        cause: cause.replace('\n', " "),
    })
}

fn read(file: File, read: &mut u64) -> Result<Vec<Dataset>, String> {
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    let file = BoundedFile { file, bytes };
    check_footer(&file).map_err(in_words)?;
    let file = SerializedFileReader::new(file).map_err(in_words)?;
    let places = check_schema(file.metadata(), bytes)?;
    let mut rows = Rows::default();
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).map_err(in_words)?;
        check_group(group.metadata())?;
        let mut columns = Vec::new();
        for (column, place) in places.iter().enumerate() {
            if let Some(place) = *place {
                let descriptor = group.metadata().column(place).column_descr_ptr();
                let reader = group.get_column_reader(place).map_err(in_words)?;
                columns.push((column, Values::new(reader, &descriptor)?));
            }
        }
        let mut left = u64::try_from(group.metadata().num_rows()).unwrap_or(0);
        while left > 0 {
            let count = left.min(BATCH as u64) as usize;
            for (column, values) in &mut columns {
                values.next(count).map_err(|cause| format!("column `{}`: {cause}", COLUMNS[*column].name))?;
            }
            for _ in 0..count {
                *read += 1;
                let mut cells = [Cell::Empty; WIDTH];
                for (column, values) in &mut columns {
                    cells[*column] = values
                        .cell()
                        .map_err(|cause| format!("column `{}`: {cause}", COLUMNS[*column].name))?;
                }
                rows.add(&cells)?;
            }
            left -= count as u64;
        }
    }
    let about = dataset_metadata(file.metadata())?;
    Ok(rows.finish()?.into_iter().map(|(number, dataset)| described(number, dataset, &about)).collect())
}

fn dataset_metadata(metadata: &ParquetMetaData) -> Result<Vec<DatasetMetadata>, String> {
    let entries = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let Some(text) = entries.filter(|entry| entry.key == DATASETS_KEY).find_map(|entry| entry.value.as_ref())
    else {
        return Ok(Vec::new());
    };
    let refuse = |cause: String| format!("metadata `{DATASETS_KEY}`: {cause}");
    let about: Vec<DatasetMetadata> =
        serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
    if about.len() > MAX_DATASETS {
        return Err(refuse(format!("{} datasets, expected at most {MAX_DATASETS}", about.len())));
    }
    for about in &about {
        about.hardware.validate().map_err(|invalid| refuse(invalid.to_string()))?;
        check_provenance(&about.provenance).map_err(refuse)?;
    }
    Ok(about)
}

/// Takes hardware and provenance from the metadata, if the dataset's rows still name the same
/// hardware.
fn described(number: u64, dataset: Dataset, about: &[DatasetMetadata]) -> Dataset {
    let same = |about: &&DatasetMetadata| {
        let (known, named) = (&about.hardware, &dataset.hardware);
        about.dataset == number && known.slug == named.slug && known.name == named.name
    };
    match about.iter().find(same) {
        Some(DatasetMetadata { hardware, provenance, .. }) => {
            Dataset { hardware: hardware.clone(), provenance: provenance.clone(), ..dataset }
        }
        None => dataset,
    }
}

/// A file that refuses reads beyond its end. Otherwise a forged length could claim any amount of
/// memory, because the library allocates memory before it reads.
struct BoundedFile {
    file: File,
    bytes: u64,
}

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.bytes
    }
}

impl ChunkReader for BoundedFile {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.file.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            let end =
                io::Error::other(format!("{length} bytes from byte {start}, beyond the end of the file"));
            return Err(end.into());
        }
        self.file.get_bytes(start, length)
    }
}

/// Limits the size of the metadata. They stand near the end of a file. After them come their length
/// in four bytes, and a mark.
fn check_footer(file: &BoundedFile) -> Result<(), ParquetError> {
    const FOOTER: usize = 8;
    let start = file.bytes.checked_sub(FOOTER as u64).unwrap_or(u64::MAX);
    let footer = file.get_bytes(start, FOOTER)?;
    let length = u32::from_le_bytes([footer[0], footer[1], footer[2], footer[3]]);
    if u64::from(length) > MAX_PARQUET_METADATA {
        let large = format!("metadata of {length} bytes, expected at most {MAX_PARQUET_METADATA}");
        return Err(io::Error::other(large).into());
    }
    Ok(())
}

/// Finds the columns, and limits the number of rows.
fn check_schema(metadata: &ParquetMetaData, bytes: u64) -> Result<[Option<usize>; WIDTH], String> {
    let claimed =
        metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(u64::MAX));
    let claimed = claimed.fold(0, u64::saturating_add);
    let limit = FREE_PARQUET_ROWS.saturating_add(bytes.saturating_mul(MAX_PARQUET_ROWS_PER_BYTE));
    if claimed > limit {
        return Err(format!("{claimed} rows, expected at most {limit} in a file of its size"));
    }
    let mut places = [None; WIDTH];
    for (place, column) in metadata.file_metadata().schema_descr().columns().iter().enumerate() {
        let [name] = column.path().parts() else { continue };
        let Some(known) = find_column(name) else { continue };
        if column.max_rep_level() > 0 || column.max_def_level() > 1 {
            return Err(format!("column `{name}`: got lists, expected one value per row"));
        }
        if places[known].replace(place).is_some() {
            return Err(format!("duplicate column `{name}`"));
        }
    }
    check_columns(|column| places[column].is_some())?;
    Ok(places)
}

fn check_group(group: &RowGroupMetaData) -> Result<(), String> {
    for column in group.columns() {
        let offsets = [Some(column.data_page_offset()), column.dictionary_page_offset()];
        let starts_and_size = offsets.into_iter().flatten().chain([column.compressed_size()]);
        if starts_and_size.into_iter().any(i64::is_negative) {
            return Err(format!("column `{}`: a negative offset or size", column.column_path().string()));
        }
        let size = column.uncompressed_size();
        if !(0..=MAX_PARQUET_CHUNK).contains(&size) {
            return Err(format!(
                "column `{}`: {size} bytes in one row group, expected at most {MAX_PARQUET_CHUNK}",
                column.column_path().string()
            ));
        }
    }
    Ok(())
}

thread_local! {
    static CATCHING: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Runs code that may panic. `None` if it did. The panic prints nothing, because the caller reports
/// the error. All other panics print as usual, also in other threads.
fn catch_panic<T>(run: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !CATCHING.get() {
                before(panic);
            }
        }));
    });
    CATCHING.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    CATCHING.set(false);
    result.ok()
}

/// A batch of one column.
struct Values {
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
    fn new(reader: ColumnReader, descriptor: &ColumnDescriptor) -> Result<Self, String> {
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
    fn next(&mut self, count: usize) -> Result<(), String> {
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
    fn cell(&mut self) -> Result<Cell<'_>, String> {
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

#[cfg(test)]
mod panics_tests {
    use super::*;

    #[test]
    fn a_panic_is_none() {
        assert_eq!(catch_panic(|| 5), Some(5));
        assert_eq!(catch_panic(|| -> u8 { panic!("never seen") }), None);
        assert!(!CATCHING.get());
    }
}
