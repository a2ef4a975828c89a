//! Reads a row into a struct by the names of its columns.
//!
//! sqlx's own derive does the same. But with it, cargo compiles sqlx and SQLite a second time for the compiler.

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

pub(crate) use from_row;
