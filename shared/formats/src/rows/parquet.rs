//! Rows as Parquet.

mod bounds;
mod panics;
mod read;
mod values;
mod write;

pub(crate) use read::decode;
pub(crate) use write::encode;

use diode_core::Provenance;
use diode_core::hardware::Hardware;
use parquet::errors::ParquetError;

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
