//! Reads query parameters. A URL has them as text, and each type has its own rules for reading it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};

/// Reads a parameter from the text form of its type.
pub fn from_text<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: FromStr<Err: Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

/// Reads a whole number within a range.
pub fn whole_number<'de, T, D>(deserializer: D, range: RangeInclusive<T>) -> Result<Option<T>, D::Error>
where
    T: FromStr + PartialOrd + Display,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.map(Some).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        D::Error::custom(format_args!("got `{text}`, expected a whole number from {least} to {most}"))
    })
}
