//! Decodes datasets. Their format is recognised by content.

use std::io::{self, BufRead};

use diode_core::Dataset;

use crate::input::contents::{FileKind, PARQUET_MAGIC, expect};
use crate::input::malformed::Place;
use crate::input::malformed::malformed;
use crate::input::source::Source;
use crate::nested;
use crate::{Format, FormatError, columnar, rows};

/// The datasets that some bytes hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The format inside any compression.
    pub format: Format,
    /// One dataset for each hardware key of the file.
    pub datasets: Vec<Dataset>,
}

/// Decodes datasets in the formats that programs send each other: torch-diode's formats and the
/// columnar format, compressed or not. CSV and Parquet are for people and their tools;
/// [`read_file`](crate::read_file) reads them.
pub fn decode(bytes: &[u8]) -> Result<Decoded, FormatError> {
    decode_within(bytes, usize::MAX)
}

/// Decodes like [`decode`], but refuses more than `timings` timings and failures, even where the
/// [limits](crate::limits) allow more. Decoding stops as soon as there are too many.
pub fn decode_within(bytes: &[u8], timings: usize) -> Result<Decoded, FormatError> {
    let decode = || decode_stream(bytes, bytes.len() as u64, timings, travels);
    expect(FileKind::Timings, bytes, decode).map_err(|error| match error {
        FormatError::Unexpected { found, expected: ANY } => {
            FormatError::Unexpected { found, expected: TRAVELLING }
        }
        other => other,
    })
}

/// What a dataset file may be, for error messages.
const ANY: &str = "JSON, MessagePack, CSV, Parquet or a columnar file, plain or under zstd";
/// What programs send each other, for error messages.
const TRAVELLING: &str = "a columnar file, or torch-diode's JSON or MessagePack, plain or under zstd";

fn travels(format: Format) -> Result<(), FormatError> {
    if format.travels() { Ok(()) } else { Err(FormatError::NotForTravel { found: format.in_words() }) }
}

/// Decodes datasets in any format but Parquet. `length` is the number of bytes of the input, and
/// `timings` the most timings and failures that it may hold. `accepts` may refuse the format before
/// anything is read.
pub(crate) fn decode_stream<R: BufRead>(
    mut input: R,
    length: u64,
    timings: usize,
    accepts: fn(Format) -> Result<(), FormatError>,
) -> Result<Decoded, FormatError> {
    let at_start = |error: io::Error| malformed("data", 0, &Place::default(), &error);
    if input.fill_buf().map_err(at_start)?.is_empty() {
        return Err(at_start(io::Error::other("no bytes at all, expected a dataset")));
    }
    let mut source = Source::open(input, length)?;
    source.limit_timings(timings);
    let format = format_of(source.peek().map_err(at_start)?)?;
    accepts(format)?;
    let datasets = match format {
        Format::Columnar => columnar::decode(source)?,
        Format::PredecessorJson => nested::decode_json(source)?,
        Format::PredecessorMsgpack => nested::decode_msgpack(source)?,
        Format::Csv => rows::csv::decode(source)?,
        Format::Parquet => {
            let packed = io::Error::other("Parquet within zstd; unpack it first");
            return Err(malformed("Parquet", 0, &Place::default(), &packed));
        }
    };
    Ok(Decoded { format, datasets })
}

/// The format of the data that begins with these bytes.
fn format_of(head: &[u8]) -> Result<Format, FormatError> {
    if columnar::begins(head) {
        return Ok(Format::Columnar);
    }
    if head.starts_with(PARQUET_MAGIC) {
        return Ok(Format::Parquet);
    }
    match head.first() {
        Some(b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n') => Ok(Format::PredecessorJson),
        // The name of a column, perhaps in quotes.
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'"') => Ok(Format::Csv),
        // In MessagePack, bytes below 0x80 are small numbers, and no dataset begins with a number.
        Some(0..0x80) => {
            let is_gzip = head.starts_with(&[0x1f, 0x8b]);
            let found = if is_gzip { "a gzip file" } else { "bytes that begin no dataset" };
            Err(FormatError::Unexpected { found: found.to_owned(), expected: ANY })
        }
        _ => Ok(Format::PredecessorMsgpack),
    }
}
