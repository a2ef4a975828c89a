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

/// The key of the file's metadata under which datasets are described.
const DATASETS_KEY: &str = "diode.datasets";

/// What the rows do not say about a dataset.
#[derive(serde::Serialize, serde::Deserialize)]
struct DatasetMetadata {
    /// Its number in the column `dataset`.
    dataset: u64,
    hardware: Hardware,
    #[serde(default)]
    provenance: Provenance,
}

fn in_words(error: ParquetError) -> String {
    let words = error.to_string();
    // The library names what this program was built without.
    match words.split_once("Disabled feature at compile time: ") {
        Some((_, codec)) => format!("compressed with {codec}, expected zstd, snappy or no compression"),
        None => words,
    }
}
