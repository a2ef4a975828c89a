//! Shape sets and reference configs: files of bounded size that are read as a whole.

use std::borrow::Cow;
use std::fmt;
use std::io::Read as _;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};

use crate::FormatError;
use crate::error::Place;
use crate::error::{malformed, malformed_json, malformed_msgpack};
use crate::input::mark;
use crate::input::{is_zstd, zstd_decoder, zstd_limit};
use crate::limits::{MAX_DEPTH, MAX_DOCUMENT};

/// The content of a file, unpacked, and how it is encoded.
pub enum Document<'a> {
    Json(Cow<'a, [u8]>),
    Msgpack(Cow<'a, [u8]>),
    /// Neither JSON nor MessagePack. It may be text with columns.
    Text(Cow<'a, [u8]>),
}

impl<'a> Document<'a> {
    /// Unpacks a compressed file. The first byte tells the encoding.
    pub fn open(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let plain = unpack(bytes)?;
        let mark = mark(&plain).map_err(|error| malformed("text", 0, &Place::default(), &error))?;
        let plain = match plain {
            Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[mark..]),
            Cow::Owned(mut bytes) => {
                bytes.drain(..mark);
                Cow::Owned(bytes)
            }
        };
        let start = plain.iter().find(|byte| !byte.is_ascii_whitespace());
        Ok(match (start, plain.first()) {
            (Some(b'{' | b'['), _) => Self::Json(plain),
            (_, Some(0x80..=0x8f | 0xde | 0xdf)) => Self::Msgpack(plain),
            _ if is_text(&plain) => Self::Text(plain),
            _ => {
                let found = "bytes that are neither UTF-8 text nor MessagePack".to_owned();
                return Err(FormatError::Unexpected { found, expected: "JSON, MessagePack or CSV" });
            }
        })
    }

    /// Parses JSON or MessagePack into a type; `None` for text.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<Option<T>, FormatError> {
        match self {
            Self::Json(json) => serde_json::from_slice(json)
                .map(Some)
                .map_err(|error| malformed_json(&error, &Place::default())),
            Self::Msgpack(msgpack) => {
                let mut rest = &msgpack[..];
                let mut reader = rmp_serde::Deserializer::new(&mut rest);
                reader.set_max_depth(MAX_DEPTH);
                let value = T::deserialize(&mut reader);
                let at = (msgpack.len() - rest.len()) as u64;
                let place = Place::default();
                let value = value.map_err(|error| malformed_msgpack("MessagePack", at, &place, error))?;
                if !rest.is_empty() {
                    let extra = std::io::Error::other("expected the end of the data, found more bytes");
                    return Err(malformed("MessagePack", at, &place, &extra));
                }
                Ok(Some(value))
            }
            Self::Text(_) => Ok(None),
        }
    }
}

/// Whether the first line is text. Errors in later lines name their line.
fn is_text(bytes: &[u8]) -> bool {
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    !line.contains(&0) && std::str::from_utf8(line).is_ok()
}

fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, FormatError> {
    let place = Place::default();
    let too_large =
        |limit| std::io::Error::other(format!("more than {limit} bytes unpacked; split the file"));
    if !is_zstd(bytes) {
        if bytes.len() as u64 > MAX_DOCUMENT {
            return Err(malformed("file", MAX_DOCUMENT, &place, &too_large(MAX_DOCUMENT)));
        }
        return Ok(Cow::Borrowed(bytes));
    }
    let limit = zstd_limit(bytes.len() as u64).min(MAX_DOCUMENT);
    let mut plain = Vec::new();
    zstd_decoder(bytes)
        .and_then(|frame| frame.take(limit + 1).read_to_end(&mut plain))
        .map_err(|error| malformed("zstd", plain.len() as u64, &place, &error))?;
    if plain.len() as u64 > limit {
        return Err(malformed("zstd", limit, &place, &too_large(limit)));
    }
    Ok(Cow::Owned(plain))
}

/// A map whose keys are data, in file order. A repeated key is an error, because a reader would
/// have to ignore one of its values.
pub struct Entries<K, V>(pub Vec<(K, V)>);

impl<'de, K: Deserialize<'de> + PartialEq + fmt::Debug, V: Deserialize<'de>> Deserialize<'de>
    for Entries<K, V>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map<K, V>(PhantomData<(K, V)>);

        impl<'de, K: Deserialize<'de> + PartialEq + fmt::Debug, V: Deserialize<'de>> Visitor<'de> for Map<K, V> {
            type Value = Entries<K, V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries: Vec<(K, V)> = Vec::new();
                while let Some(key) = map.next_key()? {
                    if entries.iter().any(|(known, _)| *known == key) {
                        return Err(A::Error::custom(format_args!("duplicate key {key:?}")));
                    }
                    entries.push((key, map.next_value()?));
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Map(PhantomData))
    }
}
