//! Reads a row into a struct by the names of its columns.
//!
//! sqlx's own derive does the same. But with it, cargo compiles sqlx and SQLite a second time for the compiler.

use crate::uploads::solutions::Damaged;

/// Implements `sqlx::FromRow` for the rows of both databases. Each field is the column with its name. A field after
/// `..` is a struct that is read from the same row.
macro_rules! from_row {
    ($name:ident { $($column:ident),* $(, ..$part:ident)? }) => {
        $crate::store::from_row::from_row!(sqlx::sqlite::SqliteRow, $name { $($column),* $(, ..$part)? });
        $crate::store::from_row::from_row!(sqlx::postgres::PgRow, $name { $($column),* $(, ..$part)? });
    };
    ($row:ty, $name:ident { $($column:ident),* $(, ..$part:ident)? }) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> sqlx::Result<Self> {
                Ok(Self {
                    $($part: sqlx::FromRow::from_row(row)?,)?
                    $($column: sqlx::Row::try_get(row, stringify!($column))?,)*
                })
            }
        }
    };
}

/// Implements `sqlx::FromRow` for [`Readable`] rows: each field is the column with its name and type, in the form that a
/// function makes of it. A value that this program never writes costs only its own row.
macro_rules! readable_row {
    ($name:ident { $($column:ident: $type:ty => $read:expr),* $(,)? }) => {
        $crate::store::from_row::readable_row!(sqlx::sqlite::SqliteRow, $name { $($column: $type => $read),* });
        $crate::store::from_row::readable_row!(sqlx::postgres::PgRow, $name { $($column: $type => $read),* });
    };
    ($row:ty, $name:ident { $($column:ident: $type:ty => $read:expr),* }) => {
        impl sqlx::FromRow<'_, $row> for $crate::store::from_row::Readable<$name> {
            fn from_row(row: &$row) -> sqlx::Result<Self> {
                $(let $column: $type = sqlx::Row::try_get(row, stringify!($column))?;)*
                let read = || Ok($name { $($column: $read($column)?,)* });
                Ok(Self(read()))
            }
        }
    };
}

pub(crate) use {from_row, readable_row};

/// A row, or what is wrong with it.
pub(crate) struct Readable<T>(pub(crate) Result<T, Damaged>);
