//! How values are written in columns, and read; and rows, by the names of their columns.
//!
//! sqlx's own derive reads rows, too. But with it, cargo compiles sqlx and SQLite a second time for the compiler, and it
//! knows nothing of values that this program never writes.

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

/// A row, or what is wrong with it. A value that this program never writes costs only its own row.
pub(crate) struct Readable<T>(pub(crate) Result<T, Damaged>);

/// Implements `sqlx::FromRow` for the [`Readable`] rows of both databases. Each name is the column with this name; after
/// `..` it is another type that is read from the same row. The expression makes a value of them, and may fail with
/// `Damaged`. Without an expression, the names are the fields.
macro_rules! readable_row {
    (@ $row:ty, $name:ty { $(..$part:ident: $of:ty,)* $($column:ident $(: $type:ty)?),* } => $read:expr) => {
        impl sqlx::FromRow<'_, $row> for $crate::store::fields::Readable<$name> {
            fn from_row(row: &$row) -> sqlx::Result<Self> {
                $(let $column $(: $type)? = sqlx::Row::try_get(row, stringify!($column))?;)*
                $(let $part: $crate::store::fields::Readable<$of> = sqlx::FromRow::from_row(row)?;)*
                let read = || {
                    $(let $part = $part.0?;)*
                    Ok($read)
                };
                Ok(Self(read()))
            }
        }
    };
    ($name:ident { $($column:ident),* $(,)? }) => {
        $crate::store::fields::readable_row!($name { $($column),* } => $name { $($column),* });
    };
    ($name:ty { $(..$part:ident: $of:ty,)* $($column:ident $(: $type:ty)?),* $(,)? } => $read:expr) => {
        $crate::store::fields::readable_row!(
            @ sqlx::sqlite::SqliteRow, $name { $(..$part: $of,)* $($column $(: $type)?),* } => $read);
        $crate::store::fields::readable_row!(
            @ sqlx::postgres::PgRow, $name { $(..$part: $of,)* $($column $(: $type)?),* } => $read);
    };
}

pub(crate) use readable_row;
