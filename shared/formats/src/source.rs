//! Recognising what some bytes are, and reading them piece by piece within limits.

use std::io::{self, BufReader, Read};

use diode_core::Dataset;

use crate::limits::{FREE_UNPACKED, MAX_DEPTH, MAX_EXPANSION, MAX_UNPACKED, MAX_WINDOW_LOG};
use crate::place::Place;
use crate::{Format, FormatError, columnar, torch};

/// What some bytes hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The format inside any compression.
    pub format: Format,
    /// One per hardware key of the file.
    pub datasets: Vec<Dataset>,
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Decodes datasets in any format, recognised by content: compressed or not,
/// columnar, MessagePack or JSON.
pub fn decode(bytes: &[u8]) -> Result<Decoded, FormatError> {
    if bytes.is_empty() {
        let nothing = io::Error::other("no bytes at all, expected a dataset");
        return Err(malformed("data", 0, &Place::default(), &nothing));
    }
    if !is_zstd(bytes) {
        return decode_plain(Source::new(bytes, u64::MAX));
    }
    let frame = zstd_decoder(bytes).map_err(|error| malformed("zstd", 0, &Place::default(), &error))?;
    let limit = zstd_limit(bytes.len());
    decode_plain(Source::new(BufReader::with_capacity(1 << 16, frame), limit))
}

/// Whether some bytes are compressed.
pub(crate) fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&ZSTD_MAGIC)
}

pub(crate) fn zstd_decoder(bytes: &[u8]) -> io::Result<zstd::stream::read::Decoder<'static, &[u8]>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    Ok(decoder)
}

/// How many bytes a compressed file of a size may unpack to.
pub(crate) fn zstd_limit(compressed: usize) -> u64 {
    MAX_UNPACKED.min(FREE_UNPACKED.saturating_add(MAX_EXPANSION * compressed as u64))
}

fn decode_plain<R: Read>(mut source: Source<R>) -> Result<Decoded, FormatError> {
    let head = source.peek().map_err(|error| malformed("data", 0, &Place::default(), &error))?;
    let (format, datasets) = if columnar::begins(head) {
        (Format::Columnar, columnar::decode(source)?)
    } else if matches!(head.first(), Some(b'{' | b' ' | b'\t' | b'\r' | b'\n')) {
        (Format::TorchDiodeJson, torch::decode_json(source)?)
    } else {
        (Format::TorchDiodeMsgpack, torch::decode_msgpack(source)?)
    };
    Ok(Decoded { format, datasets })
}

/// A reader that knows its position, shows its first bytes, and stops at a limit.
pub(crate) struct Source<R> {
    inner: R,
    head: [u8; 8],
    head_len: usize,
    head_read: usize,
    position: u64,
    limit: u64,
}

impl<R: Read> Source<R> {
    fn new(inner: R, limit: u64) -> Self {
        Self { inner, head: [0; 8], head_len: 0, head_read: 0, position: 0, limit }
    }

    /// The first bytes, up to eight, which stay to be read.
    fn peek(&mut self) -> io::Result<&[u8]> {
        while self.head_len < self.head.len() {
            match self.inner.read(&mut self.head[self.head_len..])? {
                0 => break,
                count => self.head_len += count,
            }
        }
        Ok(&self.head[..self.head_len])
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
        Ok(count)
    }
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
