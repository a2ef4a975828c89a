//! Reads MessagePack token by token, because a general decoder would need too much memory for large
//! files. No memory is allocated for a length that a file merely claims.

use std::io;
use std::io::Read;

use crate::input::Source;
use crate::limits::MAX_DEPTH;

/// The token at a position. Its lengths are claims that nothing has checked yet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Token {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    Text(u64),
    Binary(u64),
    List(u64),
    Map(u64),
    Extension(u64),
    /// The only marker without a meaning.
    Reserved,
}

impl Token {
    /// The most bytes of a token, without the content that it announces.
    pub(crate) const MAX: usize = 9;

    /// The token at the beginning of some bytes, and its length. `None` if the bytes end within the
    /// token.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let (&marker, rest) = bytes.split_first()?;
        let number = |width: usize| -> Option<u64> {
            let mut value = 0;
            for &byte in rest.get(..width)? {
                value = value << 8 | u64::from(byte);
            }
            Some(value)
        };
        Some(match marker {
            0x00..=0x7f => (Self::Unsigned(marker.into()), 1),
            0x80..=0x8f => (Self::Map((marker & 0x0f).into()), 1),
            0x90..=0x9f => (Self::List((marker & 0x0f).into()), 1),
            0xa0..=0xbf => (Self::Text((marker & 0x1f).into()), 1),
            0xc0 => (Self::Nil, 1),
            0xc1 => (Self::Reserved, 1),
            0xc2 | 0xc3 => (Self::Bool(marker == 0xc3), 1),
            0xc4..=0xc6 => {
                let width = 1 << (marker - 0xc4);
                (Self::Binary(number(width)?), 1 + width)
            }
            0xc7..=0xc9 => {
                let width = 1 << (marker - 0xc7);
                // A byte with the type comes before the content.
                (Self::Extension(number(width)? + 1), 1 + width)
            }
            0xca => (Self::Float(f32::from_bits(number(4)? as u32).into()), 5),
            0xcb => (Self::Float(f64::from_bits(number(8)?)), 9),
            0xcc..=0xcf => {
                let width = 1 << (marker - 0xcc);
                (Self::Unsigned(number(width)?), 1 + width)
            }
            0xd0..=0xd3 => {
                let width = 1 << (marker - 0xd0);
                let unused = 64 - 8 * width as u32;
                let value = (number(width)? << unused) as i64 >> unused;
                let token = u64::try_from(value).map_or(Self::Negative(value), Self::Unsigned);
                (token, 1 + width)
            }
            0xd4..=0xd8 => (Self::Extension((1 << (marker - 0xd4)) + 1), 1),
            0xd9..=0xdb => {
                let width = 1 << (marker - 0xd9);
                (Self::Text(number(width)?), 1 + width)
            }
            0xdc | 0xdd => {
                let width = 2 << (marker - 0xdc);
                (Self::List(number(width)?), 1 + width)
            }
            0xde | 0xdf => {
                let width = 2 << (marker - 0xde);
                (Self::Map(number(width)?), 1 + width)
            }
            0xe0..=0xff => (Self::Negative((marker as i8).into()), 1),
        })
    }

    /// The number of content bytes that follow the token.
    pub(crate) const fn content(self) -> u64 {
        match self {
            Self::Text(bytes) | Self::Binary(bytes) | Self::Extension(bytes) => bytes,
            _ => 0,
        }
    }

    /// The number of values that follow, each with a token of its own.
    pub(crate) const fn children(self) -> u64 {
        match self {
            Self::List(count) => count,
            Self::Map(count) => 2 * count,
            _ => 0,
        }
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Bool(value) => write!(f, "the boolean {value}"),
            Self::Unsigned(value) => write!(f, "the number {value}"),
            Self::Negative(value) => write!(f, "the number {value}"),
            Self::Float(value) => write!(f, "the number {value:?}"),
            Self::Text(bytes) => write!(f, "a text of {bytes} bytes"),
            Self::Binary(bytes) => write!(f, "{bytes} bytes of binary data"),
            Self::List(count) => write!(f, "a list of {count}"),
            Self::Map(count) => write!(f, "a map of {count}"),
            Self::Extension(_) => f.write_str("an extension"),
            Self::Reserved => f.write_str("the reserved marker 0xc1"),
        }
    }
}

/// How many bytes are held at a time: enough for the longest content that must lie in one piece.
const CAPACITY: usize = 1 << 18;

/// Shows the next bytes of a source in one piece.
pub(crate) struct Window<R> {
    source: Source<R>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<R: Read> Window<R> {
    pub(crate) fn new(source: Source<R>) -> Self {
        Self { source, buffer: vec![0; CAPACITY].into_boxed_slice(), start: 0, end: 0 }
    }

    /// The number of bytes that have been taken.
    pub(crate) fn position(&self) -> u64 {
        self.source.position() - (self.end - self.start) as u64
    }

    /// The next `count` bytes, or all that are left if there are fewer.
    #[inline]
    pub(crate) fn ahead(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.end - self.start < count {
            self.fill(count)?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    #[cold]
    fn fill(&mut self, count: usize) -> io::Result<()> {
        debug_assert!(count <= CAPACITY, "{count} bytes never fit");
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < count {
            match self.source.read(&mut self.buffer[self.end..])? {
                0 => break,
                read => self.end += read,
            }
        }
        Ok(())
    }

    /// Takes bytes that [`ahead`](Self::ahead) has shown.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) {
        self.start += count;
    }

    /// Takes the next token.
    #[inline]
    pub(crate) fn token(&mut self) -> io::Result<Token> {
        let (token, length) = Token::read(self.ahead(Token::MAX)?).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.take(length);
        Ok(token)
    }

    /// Takes the content of a text. The caller has checked that it fits into the window.
    pub(crate) fn text(&mut self, bytes: usize) -> io::Result<&str> {
        if self.ahead(bytes)?.len() < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let start = self.start;
        self.take(bytes);
        std::str::from_utf8(&self.buffer[start..start + bytes])
            .map_err(|_| io::Error::other("a text that is not UTF-8"))
    }

    /// Skips any number of bytes.
    fn discard(&mut self, mut count: u64) -> io::Result<()> {
        while count > 0 {
            let held = self.ahead(1)?.len();
            if held == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let now = usize::try_from(count).map_or(held, |count| count.min(held));
            self.take(now);
            count -= now as u64;
        }
        Ok(())
    }

    /// Skips a whole value of any type and length.
    pub(crate) fn skip(&mut self) -> io::Result<()> {
        let mut unfinished = Unfinished::default();
        loop {
            let token = self.token()?;
            self.discard(token.content())?;
            if unfinished.is_complete_after(token)? {
                return Ok(());
            }
        }
    }

    /// The bytes of the next value, which may have `limit` bytes at most. They are not taken.
    pub(crate) fn value(&mut self, what: &str, limit: usize) -> io::Result<&[u8]> {
        let bytes = self.ahead(limit)?;
        let mut unfinished = Unfinished::default();
        let mut length = 0;
        let ends_too_early = |held: usize| {
            if held < limit {
                io::ErrorKind::UnexpectedEof.into()
            } else {
                io::Error::other(format!("{what} of more than {limit} bytes"))
            }
        };
        loop {
            let rest = bytes.get(length..).ok_or_else(|| ends_too_early(bytes.len()))?;
            let (token, taken) = Token::read(rest).ok_or_else(|| ends_too_early(bytes.len()))?;
            length = usize::try_from(token.content())
                .ok()
                .and_then(|content| (length + taken).checked_add(content))
                .ok_or_else(|| ends_too_early(bytes.len()))?;
            if unfinished.is_complete_after(token)? {
                break;
            }
        }
        if length > bytes.len() || length > limit {
            return Err(ends_too_early(bytes.len()));
        }
        Ok(&self.buffer[self.start..self.start + length])
    }

    /// Refuses bytes after the value. Reading to the end also verifies the checksum of compressed
    /// data.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if self.ahead(1)?.is_empty() {
            Ok(())
        } else {
            Err(io::Error::other("expected the end of the data, found more bytes"))
        }
    }
}

/// The lists and maps that are still incomplete, and how many values each of them lacks.
#[derive(Default)]
struct Unfinished {
    missing: [u64; MAX_DEPTH],
    depth: usize,
}

impl Unfinished {
    /// Counts a token. Returns true if the value that began with the first token is now complete.
    #[inline]
    fn is_complete_after(&mut self, token: Token) -> io::Result<bool> {
        if token == Token::Reserved {
            return Err(io::Error::other(format!("{token}, expected a value")));
        }
        let children = token.children();
        if children > 0 {
            let level = self.missing.get_mut(self.depth).ok_or_else(|| {
                io::Error::other(format!("more than {MAX_DEPTH} levels of maps and arrays"))
            })?;
            *level = children;
            self.depth += 1;
            return Ok(false);
        }
        while self.depth > 0 {
            let level = &mut self.missing[self.depth - 1];
            *level -= 1;
            if *level > 0 {
                return Ok(false);
            }
            self.depth -= 1;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod token_tests {
    use super::*;

    #[test]
    fn every_marker_is_understood() {
        for (bytes, token, length) in [
            (&b"\x07"[..], Token::Unsigned(7), 1),
            (b"\x82", Token::Map(2), 1),
            (b"\x93", Token::List(3), 1),
            (b"\xa4time", Token::Text(4), 1),
            (b"\xc0", Token::Nil, 1),
            (b"\xc1", Token::Reserved, 1),
            (b"\xc3", Token::Bool(true), 1),
            (b"\xc5\x01\x02", Token::Binary(258), 3),
            (b"\xc7\x05\x01", Token::Extension(6), 2),
            (b"\xca\x3f\x80\x00\x00", Token::Float(1.0), 5),
            (b"\xcb\x40\x00\x00\x00\x00\x00\x00\x00", Token::Float(2.0), 9),
            (b"\xcd\x01\x00", Token::Unsigned(256), 3),
            (b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", Token::Unsigned(u64::MAX), 9),
            (b"\xd0\xfe", Token::Negative(-2), 2),
            (b"\xd1\x01\x00", Token::Unsigned(256), 3),
            (b"\xd3\xff\xff\xff\xff\xff\xff\xff\xff", Token::Negative(-1), 9),
            (b"\xd6", Token::Extension(5), 1),
            (b"\xda\x01\x00", Token::Text(256), 3),
            (b"\xdc\x05\xfe", Token::List(1534), 3),
            (b"\xdf\x00\x00\x00\x02", Token::Map(2), 5),
            (b"\xff", Token::Negative(-1), 1),
        ] {
            assert_eq!(Token::read(bytes), Some((token, length)), "{bytes:x?}");
            for end in 0..length {
                assert_eq!(Token::read(&bytes[..end]), None, "{bytes:x?} cut to {end}");
            }
        }
    }
}
