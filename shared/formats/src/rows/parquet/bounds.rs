//! Checks a Parquet file before the library reads it.

use std::fs::File;
use std::io::{self, BufReader};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};

use super::super::columns::{WIDTH, check_columns, find_column};
use crate::limits::{FREE_PARQUET_ROWS, MAX_PARQUET_CHUNK, MAX_PARQUET_METADATA, MAX_PARQUET_ROWS_PER_BYTE};

/// A file that refuses reads beyond its end. Otherwise a forged length could claim any amount of
/// memory, because the library allocates memory before it reads.
pub(super) struct BoundedFile {
    pub(super) file: File,
    pub(super) bytes: u64,
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
pub(super) fn check_footer(file: &BoundedFile) -> Result<(), ParquetError> {
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
pub(super) fn check_schema(metadata: &ParquetMetaData, bytes: u64) -> Result<[Option<usize>; WIDTH], String> {
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

pub(super) fn check_group(group: &RowGroupMetaData) -> Result<(), String> {
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
