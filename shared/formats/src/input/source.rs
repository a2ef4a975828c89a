//! Reads an input piece by piece, within limits.

use std::io::{self, BufRead, Read};

use super::byte_order_mark::mark;
use super::compression::{Unpacked, is_zstd, zstd_limit};
use super::malformed::malformed;
use crate::FormatError;
use crate::error_place::Place;
use crate::limits::{FREE_TIMINGS, MAX_OBJECT, MAX_TIMINGS_PER_BYTE, MAX_TIMINGS_PER_FILE};

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
