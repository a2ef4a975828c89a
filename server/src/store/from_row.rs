//! Reads a row into a type by the names of its columns.
//!
//! sqlx's own derive does the same. But with it, cargo compiles sqlx and SQLite a second time for the compiler, and it
//! knows nothing of values that this program never writes.

use crate::uploads::solutions::Damaged;

/// A row, or what is wrong with it. A value that this program never writes costs only its own row.
pub(crate) struct Readable<T>(pub(crate) Result<T, Damaged>);

/// Implements `sqlx::FromRow` for the [`Readable`] rows of both databases. Each name is the column with this name; after
/// `..` it is another type that is read from the same row. The expression makes a value of them, and may fail with
/// `Damaged`. Without an expression, the names are the fields.
macro_rules! readable_row {
    (@ $row:ty, $name:ty { $(..$part:ident: $of:ty,)* $($column:ident $(: $type:ty)?),* } => $read:expr) => {
        impl sqlx::FromRow<'_, $row> for $crate::store::from_row::Readable<$name> {
            fn from_row(row: &$row) -> sqlx::Result<Self> {
                $(let $column $(: $type)? = sqlx::Row::try_get(row, stringify!($column))?;)*
                $(let $part: $crate::store::from_row::Readable<$of> = sqlx::FromRow::from_row(row)?;)*
                let read = || {
                    $(let $part = $part.0?;)*
                    Ok($read)
                };
                Ok(Self(read()))
            }
        }
    };
    ($name:ident { $($column:ident),* $(,)? }) => {
        $crate::store::from_row::readable_row!($name { $($column),* } => $name { $($column),* });
    };
    ($name:ty { $(..$part:ident: $of:ty,)* $($column:ident $(: $type:ty)?),* $(,)? } => $read:expr) => {
        $crate::store::from_row::readable_row!(
            @ sqlx::sqlite::SqliteRow, $name { $(..$part: $of,)* $($column $(: $type)?),* } => $read);
        $crate::store::from_row::readable_row!(
            @ sqlx::postgres::PgRow, $name { $(..$part: $of,)* $($column $(: $type)?),* } => $read);
    };
}

pub(crate) use readable_row;
