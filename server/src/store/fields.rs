//! How values are written in columns, and read.

use diode_core::Invalid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::uploads::solutions::Damaged;

pub(crate) fn unsigned(what: &'static str, value: i64) -> Result<u64, Damaged> {
    u64::try_from(value).map_err(|_| Damaged::new(what, format_args!("negative: {value}")))
}

/// Reads a version of the terms of contributing.
pub(crate) fn terms_version(value: i64) -> Result<u32, Damaged> {
    u32::try_from(value).map_err(|_| Damaged::new("version of the terms", format_args!("{value}")))
}

/// The JSON of a value. Every value that the store writes has one: map keys are text, and floats are in range.
pub(crate) fn json<T: Serialize>(what: &'static str, value: &T) -> Result<String, Damaged> {
    serde_json::to_string(value)
        .map_err(|error| Damaged::new(what, format_args!("not writable as JSON: {error}")))
}

pub(crate) fn from_json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, Damaged> {
    serde_json::from_str(text).map_err(|error| Damaged::new(what, error))
}

/// The text form of a time in milliseconds since 1970, for people.
pub(crate) fn rfc3339(what: &'static str, millis: i64) -> Result<String, Damaged> {
    let moment = jiff::Timestamp::from_millisecond(millis);
    moment.map(|moment| moment.to_string()).map_err(|error| Damaged::new(what, error))
}

/// Reads a value from the text form of its type.
pub(crate) fn parse<T>(what: &'static str, text: String) -> Result<T, Damaged>
where
    T: TryFrom<String, Error = Invalid>,
{
    T::try_from(text).map_err(|error| Damaged::new(what, error))
}

/// Reads a value from its text form in a column that may be NULL.
pub(crate) fn optional<T>(what: &'static str, text: Option<String>) -> Result<Option<T>, Damaged>
where
    T: TryFrom<String, Error = Invalid>,
{
    text.map(|text| parse(what, text)).transpose()
}

/// Reads a value from its name, for types whose values have fixed names.
pub(crate) fn named<T>(what: &'static str, text: &str) -> Result<T, Damaged>
where
    T: std::str::FromStr<Err = Invalid>,
{
    text.parse().map_err(|error: Invalid| Damaged::new(what, error))
}
