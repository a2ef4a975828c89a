//! The one error of this crate.

use std::path::PathBuf;

use diode_core::Invalid;

use crate::limits::too_many_timings;

/// Why bytes could not be read or data could not be written.
///
/// Every message is one line that names the place and the cause.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The bytes are not what their format prescribes, hold a value that the
    /// vocabulary refuses, or ask for more than the [limits](crate::limits).
    #[error("{state} {encoding} at {at}{place}: {cause}")]
    Malformed {
        /// `truncated` if the bytes end too early, else `invalid`.
        state: &'static str,
        encoding: &'static str,
        /// The position: a byte, or a line and column.
        at: String,
        /// The hardware, op and problem being read, in parentheses; empty outside.
        place: String,
        cause: String,
    },

    /// The file is not what was asked for.
    #[error("got {found}, expected {expected}")]
    Unexpected { found: String, expected: &'static str },

    /// The format to write has no place for some of the data.
    #[error("{holder} cannot hold {losses}; write a .msgpack.zst file (columnar) instead")]
    WouldLose { holder: &'static str, losses: String },

    /// The format is for files, not for what programs send each other.
    #[error("got {found}, which is for people and their tools; convert it to a .msgpack.zst file first")]
    NotForTravel { found: &'static str },

    /// The program was built without the feature `parquet`.
    #[error("this program was built without Parquet; convert to .msgpack.zst with `diode convert`")]
    WithoutParquet,

    /// The dataset to write contradicts itself.
    #[error("cannot write{place}: {source}")]
    Inconsistent { place: String, source: Invalid },

    /// The dataset to write is larger than any reader would accept.
    #[error("cannot write{place}: {given} {what}, expected at most {limit}; split it into several files")]
    TooLarge { place: String, what: &'static str, given: usize, limit: usize },

    /// A file name that names no format.
    #[error("{}: the extension names no format to write; {expected}", path.display())]
    UnknownExtension { path: PathBuf, expected: &'static str },

    /// The file is there, but its content is wrong.
    #[error("{}: {source}", path.display())]
    InFile { path: PathBuf, source: Box<FormatError> },

    /// The file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

impl FormatError {
    /// Whether all that is wrong is that there are more timings and failures than this limit.
    pub fn has_more_timings_than(&self, limit: usize) -> bool {
        matches!(self, Self::Malformed { cause, .. } if cause.contains(&too_many_timings(limit)))
    }
}
