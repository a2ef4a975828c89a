//! Shows pieces of a MessagePack stream.

use std::io::{self, Read};

use super::Token;
use crate::input::source::Source;
use crate::limits::MAX_DEPTH;

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
