//! The only error type of this crate.

use std::path::PathBuf;

use diode_core::Invalid;

use crate::limits::too_many_timings;

/// Why bytes could not be read or data could not be written.
///
/// Every message is one line that names the place and the cause.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// The bytes break the rules of their format, hold a value that validation refuses, or exceed
    /// the [limits](crate::limits).
    #[error("{state} {encoding} at {at}{place}: {cause}")]
    Malformed {
        /// `truncated` if the bytes end too early, else `invalid`.
        state: &'static str,
        encoding: &'static str,
        /// The position: a byte, or a line and a column.
        at: String,
        /// The hardware, op and problem that were being read, in parentheses. Empty if there are
        /// none yet.
        place: String,
        cause: String,
    },

    /// The file is of another kind than expected.
    #[error("got {found}, expected {expected}")]
    Unexpected { found: String, expected: &'static str },

    /// The format cannot hold some of the data.
    #[error("{holder} cannot hold {losses}; write a .msgpack.zst file (columnar) instead")]
    WouldLose { holder: &'static str, losses: String },

    /// Programs do not send each other this format.
    #[error(
        "got {found}, which is for people and their tools; convert it to a .msgpack.zst file first: `diode convert IT my.msgpack.zst`"
    )]
    NotForTravel { found: &'static str },

    /// The program was built without the feature `parquet`.
    #[error("this program was built without Parquet; convert to .msgpack.zst with `diode convert`")]
    WithoutParquet,

    /// The dataset to write contradicts itself.
    #[error("cannot write{place}: {source}")]
    Inconsistent { place: String, source: Invalid },

    /// The dataset to write is larger than readers accept.
    #[error("cannot write{place}: {given} {what}, expected at most {limit}; split it into several files")]
    TooLarge { place: String, what: &'static str, given: usize, limit: usize },

    /// The extension of the file's name stands for no format.
    #[error("{}: the extension names no format to write; {expected}", path.display())]
    UnknownExtension { path: PathBuf, expected: &'static str },

    /// The file could be read, but its content is wrong.
    #[error("{}: {source}", path.display())]
    InFile { path: PathBuf, source: Box<FormatError> },

    /// The file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

impl FormatError {
    /// Whether this error says that there are more timings and failures than this limit.
    pub fn has_more_timings_than(&self, limit: usize) -> bool {
        matches!(self, Self::Malformed { cause, .. } if cause.contains(&too_many_timings(limit)))
    }
}
