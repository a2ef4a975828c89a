//! The markers of MessagePack.

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

#[cfg(test)]
mod tests {
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
