//! The only error type of this crate, and the words for bytes that could not be read.

use std::path::PathBuf;
use std::{fmt, io};

use diode_core::{Invalid, Op};

use crate::limits::{MAX_DEPTH, too_many_timings};

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
    Io { path: PathBuf, source: io::Error },
}

impl FormatError {
    /// Whether this error says that there are more timings and failures than this limit.
    pub fn has_more_timings_than(&self, limit: usize) -> bool {
        matches!(self, Self::Malformed { cause, .. } if cause.contains(&too_many_timings(limit)))
    }
}

/// The error for bytes that could not be read, with their position.
pub(crate) fn malformed(encoding: &'static str, at: u64, place: &Place, error: &io::Error) -> FormatError {
    let (state, cause) = if error.kind() == io::ErrorKind::UnexpectedEof {
        ("truncated", "expected more bytes, found the end of the data".to_owned())
    } else {
        ("invalid", error.to_string())
    };
    FormatError::Malformed { state, encoding, at: format!("byte {at}"), place: place.to_string(), cause }
}

/// The error for MessagePack that could not be read.
pub(crate) fn malformed_msgpack(
    encoding: &'static str,
    at: u64,
    place: &Place,
    error: rmp_serde::decode::Error,
) -> FormatError {
    use rmp_serde::decode::Error;
    match error {
        Error::InvalidMarkerRead(source) | Error::InvalidDataRead(source) => {
            malformed(encoding, at, place, &source)
        }
        other => malformed(encoding, at, place, &io::Error::other(msgpack_cause(other))),
    }
}

/// The cause of a MessagePack decoder's error, in words.
pub(crate) fn msgpack_cause(error: rmp_serde::decode::Error) -> String {
    use rmp_serde::decode::Error;
    match error {
        Error::TypeMismatch(marker) => format!("unexpected {marker:?}"),
        Error::DepthLimitExceeded => format!("more than {MAX_DEPTH} levels of maps and arrays"),
        other => other.to_string(),
    }
}

/// The error for JSON that could not be read.
pub(crate) fn malformed_json(error: &serde_json::Error, place: &Place) -> FormatError {
    // serde_json's messages end with the position, ours begin with it.
    let message = error.to_string();
    let cause = match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message,
    };
    // An error before the first part of the JSON has no position.
    let at = match error.line() {
        0 => "its beginning".to_owned(),
        line => format!("line {line} column {}", error.column()),
    };
    FormatError::Malformed {
        state: if error.is_eof() { "truncated" } else { "invalid" },
        encoding: "JSON",
        at,
        place: place.to_string(),
        cause,
    }
}

/// The error for a part of a document that validation refuses.
pub fn refused(encoding: &'static str, at: String, cause: impl fmt::Display) -> FormatError {
    FormatError::Malformed { state: "invalid", encoding, at, place: String::new(), cause: cause.to_string() }
}

/// The hardware, op and problem that are being read. Prints ` (hardware "…", op mm, problem 17)`,
/// or nothing if there is no hardware yet.
#[derive(Debug, Default, Clone)]
pub(crate) struct Place {
    pub(crate) hardware: Option<String>,
    pub(crate) op: Option<Op>,
    /// Counted from 1.
    pub(crate) problem: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(hardware) = &self.hardware else { return Ok(()) };
        // Debug output quotes and escapes, so a name with line breaks stays on one line.
        write!(f, " (hardware {hardware:?}")?;
        if let Some(op) = self.op {
            write!(f, ", op {op}")?;
        }
        if let Some(problem) = self.problem {
            write!(f, ", problem {problem}")?;
        }
        f.write_str(")")
    }
}
