//! The objects of the stream, in the order in which they stand in a file.

use std::fmt;

use diode_core::hardware::Hardware;
use diode_core::{Method, Problem, Provenance};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

/// What `format` says.
pub(super) const FORMAT: &str = "diode-columnar";
/// Raised when a reader of the older schema would misread the file.
pub(super) const SCHEMA: u32 = 1;

/// The first object.
#[derive(Serialize, serde::Deserialize)]
pub(super) struct FileHeader {
    /// Stands first: files are recognised by it.
    pub(super) format: String,
    pub(super) schema: u32,
    /// How many datasets follow.
    pub(super) datasets: u64,
}

/// Begins a dataset.
#[derive(Serialize, serde::Deserialize)]
pub(super) struct DatasetHeader {
    pub(super) hardware: Hardware,
    #[serde(default)]
    pub(super) provenance: Provenance,
    /// The config dictionary.
    pub(super) configs: Blob,
    /// How many problems follow.
    pub(super) problems: u64,
}

/// One problem with all its columns.
#[derive(Serialize, serde::Deserialize)]
pub(super) struct ProblemRecord {
    pub(super) problem: Problem,
    pub(super) method: Method,
    pub(super) rows: u64,
    /// The number of the config list that the rows follow, counted from 0 in
    /// the order in which this dataset's problems define them.
    pub(super) list: u64,
    /// The list itself, where it is first used.
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

/// The configs that have no time, and why.
#[derive(Serialize, serde::Deserialize)]
pub(super) struct Failures {
    pub(super) rows: u64,
    pub(super) configs: Blob,
    pub(super) reasons: Blob,
}

/// A column: MessagePack's binary type, which serde does not use for `Vec<u8>`.
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
