//! What all readers share: opening files, bounded reading, unpacking, and recognising files. Here an input is read
//! piece by piece, within limits.

pub(crate) mod contents;
pub(crate) mod delimited;
pub(crate) mod document;
pub(crate) mod file;
#[cfg(any(test, target_family = "wasm"))]
mod zstd_in_rust;

use std::io;
use std::io::{BufRead, BufReader, Read};

use crate::FormatError;
use crate::error::Place;
use crate::error::malformed;
use crate::limits::{
    FREE_TIMINGS, FREE_UNPACKED, MAX_EXPANSION, MAX_OBJECT, MAX_TIMINGS_PER_BYTE, MAX_TIMINGS_PER_FILE,
    MAX_UNPACKED, MAX_WINDOW_LOG,
};

/// A reader that counts its position, can show the first bytes, skips a byte order mark and stops at a
/// limit.
pub(crate) struct Source<R> {
    inner: R,
    head: [u8; 8],
    head_len: usize,
    head_read: usize,
    peeked: bool,
    position: u64,
    limit: u64,
    /// The position at which the current object must have ended.
    bound: Option<u64>,
    max_timings: usize,
}

impl<R: BufRead> Source<Unpacked<R>> {
    /// Opens an input of `length` bytes. What is read from it is unpacked.
    pub(crate) fn open(mut input: R, length: u64) -> Result<Self, FormatError> {
        let malformed = |encoding, error: io::Error| malformed(encoding, 0, &Place::default(), &error);
        if !is_zstd(input.fill_buf().map_err(|error| malformed("data", error))?) {
            return Ok(Self::new(Unpacked::Plain(input), u64::MAX, length));
        }
        let frame = Unpacked::zstd(input).map_err(|error| malformed("zstd", error))?;
        Ok(Self::new(frame, zstd_limit(length), length))
    }
}

impl<R: Read> Source<R> {
    /// `length` is the size of the input before unpacking.
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

    /// Limits the length of the next object.
    pub(crate) fn bound(&mut self, bytes: u64) {
        self.bound = Some(self.position.saturating_add(bytes));
    }

    /// Lowers the limit on timings and failures, for a caller that takes fewer.
    pub(crate) fn limit_timings(&mut self, timings: usize) {
        self.max_timings = self.max_timings.min(timings);
    }

    /// The most timings and failures that a file of this size may hold.
    pub(crate) fn max_timings(&self) -> usize {
        self.max_timings
    }

    /// The first eight bytes, or all if there are fewer. They can still be read.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        while !self.peeked && self.head_len < self.head.len() {
            match self.inner.read(&mut self.head[self.head_len..])? {
                0 => break,
                count => self.head_len += count,
            }
        }
        if !self.peeked {
            self.head_read = mark(&self.head[..self.head_len])?;
            self.position = self.head_read as u64;
            self.peeked = true;
        }
        Ok(&self.head[self.head_read..self.head_len])
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Refuses bytes after the last object. Reading to the end also verifies the checksum of compressed
    /// data.
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

/// Unpacks what is read through it. The browser has no C library, so its decoder is in Rust.
#[cfg(not(target_family = "wasm"))]
pub(crate) type ZstdDecoder<R> = zstd::stream::read::Decoder<'static, R>;
#[cfg(target_family = "wasm")]
pub(crate) type ZstdDecoder<R> = zstd_in_rust::Decoder<R>;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Whether some bytes begin like data that zstd has compressed.
pub(crate) fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&ZSTD_MAGIC)
}

pub(crate) fn zstd_decoder<R: BufRead>(input: R) -> io::Result<ZstdDecoder<R>> {
    let mut decoder = ZstdDecoder::with_buffer(input)?;
    decoder.window_log_max(MAX_WINDOW_LOG)?;
    Ok(decoder)
}

/// The most bytes to which a compressed file of this size may unpack.
pub(crate) fn zstd_limit(compressed: u64) -> u64 {
    MAX_UNPACKED.min(FREE_UNPACKED.saturating_add(MAX_EXPANSION.saturating_mul(compressed)))
}

/// Whether every decoder of zstd finds the same errors in some bytes. This is sure if the bytes are not
/// compressed, or if their compression is undamaged up to the last byte.
pub fn is_sound(bytes: &[u8]) -> bool {
    let unpacked = |frame: ZstdDecoder<_>| {
        io::copy(&mut frame.take(zstd_limit(bytes.len() as u64)), &mut io::sink()).map(drop)
    };
    let breaks_off = |error: io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    !is_zstd(bytes) || zstd_decoder(bytes).and_then(unpacked).map_or_else(breaks_off, |()| true)
}

/// An input that is unpacked if it is compressed.
pub(crate) enum Unpacked<R: BufRead> {
    Plain(R),
    Zstd(BufReader<ZstdDecoder<R>>),
}

impl<R: BufRead> Unpacked<R> {
    /// Unpacks an input that begins like compressed data.
    pub(crate) fn zstd(input: R) -> io::Result<Self> {
        Ok(Self::Zstd(BufReader::with_capacity(1 << 16, zstd_decoder(input)?)))
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Zstd(frame) => frame.read(buffer),
        }
    }
}

/// Some programs on Windows put this before UTF-8, where it has no meaning.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// The marks of UTF-16. No format here is written in UTF-16.
const UTF16_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// The length of the mark at the beginning, or 0. Formats other than text never begin with a mark.
pub(crate) fn mark(head: &[u8]) -> io::Result<usize> {
    if UTF16_MARKS.iter().any(|mark| head.starts_with(mark)) {
        return Err(io::Error::other("got a text in UTF-16, expected UTF-8; save it in that encoding"));
    }
    Ok(if head.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 })
}

/// Some bytes without the mark at their beginning, if there is one.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    &bytes[mark(bytes).unwrap_or(0)..]
}
