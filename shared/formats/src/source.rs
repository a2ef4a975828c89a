//! Recognising what some bytes are, and reading them piece by piece within limits.

use std::io::{self, BufRead, BufReader, Read};

use diode_core::Dataset;

use crate::contents::{self, Kind};
use crate::limits::{
    FREE_TIMINGS, FREE_UNPACKED, MAX_DEPTH, MAX_EXPANSION, MAX_OBJECT, MAX_TIMINGS_PER_BYTE,
    MAX_TIMINGS_PER_FILE, MAX_UNPACKED, MAX_WINDOW_LOG,
};
use crate::place::Place;
use crate::{Format, FormatError, columnar, predecessor, rows, text};

/// What some bytes hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The format inside any compression.
    pub format: Format,
    /// One per hardware key of the file.
    pub datasets: Vec<Dataset>,
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Decodes datasets in the formats that travel: torch-diode's and the columnar
/// one, compressed or not, recognised by content. CSV and Parquet are files for
/// people and their tools; [`read_file`](crate::read_file) reads them.
pub fn decode(bytes: &[u8]) -> Result<Decoded, FormatError> {
    contents::expect(Kind::Timings, bytes, || decode_stream(bytes, bytes.len() as u64, travels))
}

/// Decodes datasets in any format but Parquet. `length` is how many bytes the
/// input has; `accepts` is asked about the format before anything is read.
pub(crate) fn decode_stream<R: BufRead>(
    mut input: R,
    length: u64,
    accepts: fn(Format) -> Result<(), FormatError>,
) -> Result<Decoded, FormatError> {
    let at_start = |error: io::Error| malformed("data", 0, &Place::default(), &error);
    let head = input.fill_buf().map_err(at_start)?;
    if head.is_empty() {
        return Err(at_start(io::Error::other("no bytes at all, expected a dataset")));
    }
    if !is_zstd(head) {
        return decode_plain(Source::new(input, u64::MAX, length), accepts);
    }
    let frame = zstd_decoder(input).map_err(|error| malformed("zstd", 0, &Place::default(), &error))?;
    let frame = BufReader::with_capacity(1 << 16, frame);
    decode_plain(Source::new(frame, zstd_limit(length), length), accepts)
}

/// The unpacked content of an input of so many bytes.
pub(crate) fn open<'a, R: BufRead + 'a>(
    mut input: R,
    length: u64,
) -> Result<Source<Box<dyn Read + 'a>>, FormatError> {
    let malformed = |encoding, error: io::Error| malformed(encoding, 0, &Place::default(), &error);
    if !is_zstd(input.fill_buf().map_err(|error| malformed("data", error))?) {
        return Ok(Source::new(Box::new(input), u64::MAX, length));
    }
    let frame = zstd_decoder(input).map_err(|error| malformed("zstd", error))?;
    Ok(Source::new(Box::new(frame), zstd_limit(length), length))
}

fn travels(format: Format) -> Result<(), FormatError> {
    match format {
        Format::PredecessorJson | Format::PredecessorMsgpack | Format::Columnar => Ok(()),
        Format::Csv | Format::Parquet => Err(FormatError::NotForTravel { format }),
    }
}

/// Whether some bytes are compressed.
pub(crate) fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&ZSTD_MAGIC)
}

pub(crate) fn zstd_decoder<R: BufRead>(input: R) -> io::Result<zstd::stream::read::Decoder<'static, R>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    Ok(decoder)
}

/// How many bytes a compressed file of a size may unpack to.
pub(crate) fn zstd_limit(compressed: u64) -> u64 {
    MAX_UNPACKED.min(FREE_UNPACKED.saturating_add(MAX_EXPANSION.saturating_mul(compressed)))
}

fn decode_plain<R: Read>(
    mut source: Source<R>,
    accepts: fn(Format) -> Result<(), FormatError>,
) -> Result<Decoded, FormatError> {
    let head = source.peek().map_err(|error| malformed("data", 0, &Place::default(), &error))?;
    let format = if columnar::begins(head) {
        Format::Columnar
    } else if head.starts_with(PARQUET_MAGIC) {
        Format::Parquet
    } else {
        match head.first() {
            Some(b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n') => Format::PredecessorJson,
            // A name of a column, perhaps in quotes.
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'"') => Format::Csv,
            // Below these, MessagePack has small numbers.
            Some(0..0x80) => {
                let is_gzip = head.starts_with(&[0x1f, 0x8b]);
                let found = if is_gzip { "a gzip file" } else { "bytes that begin no dataset" };
                let expected = "JSON, MessagePack, CSV, Parquet or a columnar file, plain or under zstd";
                return Err(FormatError::Unexpected { found: found.to_owned(), expected });
            }
            _ => Format::PredecessorMsgpack,
        }
    };
    accepts(format)?;
    let datasets = match format {
        Format::Columnar => columnar::decode(source)?,
        Format::PredecessorJson => predecessor::decode_json(source)?,
        Format::PredecessorMsgpack => predecessor::decode_msgpack(source)?,
        Format::Csv => rows::csv::decode(source)?,
        Format::Parquet => {
            let packed = io::Error::other("Parquet within zstd; unpack it first");
            return Err(malformed("Parquet", 0, &Place::default(), &packed));
        }
    };
    Ok(Decoded { format, datasets })
}

pub(crate) const PARQUET_MAGIC: &[u8] = b"PAR1";

/// A reader that knows its position, shows its first bytes, passes over the mark of a text,
/// and stops at a limit.
pub(crate) struct Source<R> {
    inner: R,
    head: [u8; 8],
    head_len: usize,
    head_read: usize,
    peeked: bool,
    position: u64,
    limit: u64,
    /// Where the object being read must have ended.
    bound: Option<u64>,
    max_timings: usize,
}

impl<R: Read> Source<R> {
    /// `length` is the size of the file, compressed or not.
    fn new(inner: R, limit: u64, length: u64) -> Self {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let max_timings = MAX_TIMINGS_PER_FILE
            .min(FREE_TIMINGS.saturating_add(MAX_TIMINGS_PER_BYTE.saturating_mul(length)));
        Self {
            inner,
            head: [0; 8],
            head_len: 0,
            head_read: 0,
            peeked: false,
            position: 0,
            limit,
            bound: None,
            max_timings,
        }
    }

    /// The next object must not be longer than this.
    pub(crate) fn bound(&mut self, bytes: u64) {
        self.bound = Some(self.position.saturating_add(bytes));
    }

    /// How many timings and failures a file of this size may hold.
    pub(crate) fn max_timings(&self) -> usize {
        self.max_timings
    }

    /// The first bytes, some eight, which stay to be read.
    fn peek(&mut self) -> io::Result<&[u8]> {
        while !self.peeked && self.head_len < self.head.len() {
            match self.inner.read(&mut self.head[self.head_len..])? {
                0 => break,
                count => self.head_len += count,
            }
        }
        if !self.peeked {
            self.head_read = text::mark(&self.head[..self.head_len])?;
            self.position = self.head_read as u64;
            self.peeked = true;
        }
        Ok(&self.head[self.head_read..self.head_len])
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Reads to the end, where compression proves its checksum, and refuses
    /// bytes that nobody asked for.
    pub(crate) fn finish(&mut self, encoding: &'static str) -> Result<(), FormatError> {
        let at = self.position;
        let mut extra = [0];
        let error = match self.read(&mut extra) {
            Ok(0) => return Ok(()),
            Ok(_) => io::Error::other("expected the end of the data, found more bytes"),
            Err(error) => error,
        };
        Err(malformed(encoding, at, &Place::default(), &error))
    }
}

impl<R: Read> Read for Source<R> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.peeked {
            self.peek()?;
        }
        let count = if self.head_read < self.head_len {
            let count = buffer.len().min(self.head_len - self.head_read);
            buffer[..count].copy_from_slice(&self.head[self.head_read..self.head_read + count]);
            self.head_read += count;
            count
        } else {
            self.inner.read(buffer)?
        };
        self.position += count as u64;
        if self.position > self.limit {
            return Err(io::Error::other(format!(
                "the compressed data unpacks to more than {} bytes, the most accepted from a file of its size; \
                 unpack it first or split it",
                self.limit
            )));
        }
        if self.bound.is_some_and(|bound| self.position > bound) {
            return Err(io::Error::other(format!(
                "one object of more than {MAX_OBJECT} bytes; split the problem"
            )));
        }
        Ok(count)
    }
}

/// Why a file is refused whose timings are more than its size lets expect.
pub(crate) fn too_many_timings(limit: usize) -> String {
    format!("more than {limit} timings, the most accepted from a file of its size; split the file")
}

/// Why a file is refused that has more parts of a kind than any file may.
pub(crate) fn too_many(parts: &str, limit: usize) -> String {
    format!("more than {limit} {parts}, the most accepted in one file; split the file")
}

/// The error for bytes that could not be read at a byte position.
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

/// What an error of the MessagePack decoder means, in our words.
pub(crate) fn msgpack_cause(error: rmp_serde::decode::Error) -> String {
    use rmp_serde::decode::Error;
    match error {
        Error::TypeMismatch(marker) => format!("unexpected {marker:?}"),
        Error::DepthLimitExceeded => format!("more than {MAX_DEPTH} levels of maps and arrays"),
        other => other.to_string(),
    }
}
