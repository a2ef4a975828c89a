//! Lists that people write. An error names the place of the wrong entry.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Reads a list. The error of an entry begins with what the entry is and its number: `problem 3: …`.
///
/// ```
/// # fn main() {
/// struct Sizes(Vec<u64>);
/// impl<'de> serde::Deserialize<'de> for Sizes {
///     fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
///         diode_core::numbered(deserializer, "size").map(Self)
///     }
/// }
/// let error = serde_json::from_str::<Sizes>("[8, -8]").err().unwrap();
/// assert_eq!(error.to_string(), "size 2: invalid value: integer `-8`, expected u64 at line 1 column 6");
/// # }
/// ```
pub fn numbered<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    what: &'static str,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(Numbered { what, of: PhantomData })
}

struct Numbered<T> {
    what: &'static str,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Numbered<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}s", self.what)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut entries = Vec::new();
        loop {
            match list.next_element() {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => return Ok(entries),
                Err(error) => {
                    let number = entries.len() + 1;
                    return Err(A::Error::custom(format_args!("{} {number}: {error}", self.what)));
                }
            }
        }
    }
}
