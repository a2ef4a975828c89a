//! Rows as Parquet.

mod quiet;
mod read;
mod write;

pub(crate) use read::decode;
pub(crate) use write::encode;

use diode_core::Provenance;
use diode_core::hardware::Hardware;

/// The key of the file's metadata under which datasets are described.
const DATASETS_KEY: &str = "diode.datasets";

/// What the rows do not say about a dataset.
#[derive(serde::Serialize, serde::Deserialize)]
struct About {
    /// What the column `dataset` calls it.
    dataset: u64,
    hardware: Hardware,
    #[serde(default)]
    provenance: Provenance,
}
