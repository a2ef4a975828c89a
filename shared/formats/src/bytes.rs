//! Reads untrusted bytes in order, and variable-length numbers (LEB128).

use crate::FormatError;

/// What is wrong with some bytes, and at which position.
#[derive(Debug)]
pub struct Corrupt {
    pub truncated: bool,
    pub at: usize,
    pub cause: String,
}

impl Corrupt {
    /// An error for bytes that are complete but wrong.
    pub fn invalid(at: usize, cause: impl Into<String>) -> Self {
        Self { truncated: false, at, cause: cause.into() }
    }

    /// The error for a user. `at` puts the position into words.
    pub fn malformed(self, encoding: &'static str, at: impl FnOnce(usize) -> String) -> FormatError {
        FormatError::Malformed {
            state: if self.truncated { "truncated" } else { "invalid" },
            encoding,
            at: at(self.at),
            place: String::new(),
            cause: self.cause,
        }
    }
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (byte {} of the column data)", self.cause, self.at)
    }
}

/// Hands out the bytes of a slice in order. Every length is checked before it is used.
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Corrupt> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or_else(|| Corrupt {
            truncated: true,
            at: self.at,
            cause: format!("expected {count} more bytes, found {}", rest.len()),
        })?;
        self.at += count;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.take(1)?[0])
    }

    pub fn varint(&mut self) -> Result<u64, Corrupt> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.corrupt("a number longer than 64 bits"))
    }

    /// Reads a count of things that take at least a byte each. If the rest of the bytes cannot hold
    /// that many, the count is refused before any memory is allocated.
    pub fn count(&mut self, what: &str, limit: usize) -> Result<usize, Corrupt> {
        let count = self.varint()?;
        let limit = limit.min(self.bytes.len() - self.at);
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= limit)
            .ok_or_else(|| self.corrupt(format!("{count} {what}, expected at most {limit}")))
    }

    /// Refuses bytes after the last value.
    pub fn end(&self) -> Result<(), Corrupt> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            rest => Err(self.corrupt(format!("expected the end, found {rest} more bytes"))),
        }
    }

    pub fn corrupt(&self, cause: impl Into<String>) -> Corrupt {
        Corrupt::invalid(self.at, cause)
    }
}

pub(crate) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_refuse_more_than_64_bits() {
        for value in [0, 1, 127, 128, 300, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            write_varint(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.varint().unwrap(), value);
            cursor.end().unwrap();
        }
        assert!(Cursor::new(&[0xff; 10]).varint().is_err());
        assert!(Cursor::new(&[0x80]).varint().unwrap_err().truncated);
    }
}
