//! The objects of the stream, in the order of the file.

use std::fmt;

use diode_core::hardware::Hardware;
use diode_core::{Method, Problem, Provenance};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

/// The value of the field `format`.
pub(super) const FORMAT: &str = "diode-columnar";
/// A change that older readers would misread needs a higher number.
pub(super) const SCHEMA: u32 = 1;

/// The first object of a file.
#[derive(Serialize, serde::Deserialize)]
pub(super) struct FileHeader {
    /// The first field, by which files are recognised.
    pub(super) format: String,
    pub(super) schema: u32,
    /// The number of datasets that follow.
    pub(super) datasets: u64,
}

/// The object that begins a dataset.
#[derive(Serialize, serde::Deserialize)]
pub(super) struct DatasetHeader {
    pub(super) hardware: Hardware,
    #[serde(default)]
    pub(super) provenance: Provenance,
    /// The config dictionary.
    pub(super) configs: Blob,
    /// The number of problems that follow.
    pub(super) problems: u64,
}

/// One problem with all its columns.
#[derive(Serialize, serde::Deserialize)]
pub(super) struct ProblemRecord {
    pub(super) problem: Problem,
    pub(super) method: Method,
    pub(super) rows: u64,
    /// The number of the config list whose configs the rows have. Lists count from 0, in the order
    /// in which this dataset's problems first use them.
    pub(super) list: u64,
    /// The config list itself, if this problem is the first to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) configs: Option<Blob>,
    pub(super) times: Blob,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) minimum_ns: Option<Blob>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) spread_ns: Option<Blob>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) repeats: Option<Blob>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failures: Option<Failures>,
}

/// The configs without a time, and the reasons.
#[derive(Serialize, serde::Deserialize)]
pub(super) struct Failures {
    pub(super) rows: u64,
    pub(super) configs: Blob,
    pub(super) reasons: Blob,
}

/// A column, written as MessagePack's binary type. serde would write a `Vec<u8>` as a list of
/// numbers.
pub(super) struct Blob(pub(super) Vec<u8>);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Blob;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a column as binary data")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Blob, E> {
                Ok(Blob(bytes.to_vec()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Blob, A::Error> {
                Err(Error::custom("a column as a list of numbers, expected binary data"))
            }
        }

        deserializer.deserialize_bytes(Bytes)
    }
}
