//! Reads Parquet files, including those of other programs.

use std::fs::File;

use diode_core::Dataset;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::super::Cell;
use super::super::columns::{COLUMNS, WIDTH};
use super::super::reader::Rows;
use super::bounds::{BoundedFile, check_footer, check_group, check_schema};
use super::panics::catch_panic;
use super::values::Values;
use super::{DATASETS_KEY, DatasetMetadata, in_words};
use crate::FormatError;
use crate::check_before_writing::check_provenance;
use crate::limits::MAX_DATASETS;

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
