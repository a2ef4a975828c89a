//! Datasets as rows, one per timing: what CSV and Parquet share. `docs/reference/formats.md`
//! describes the columns.

mod columns;
pub(crate) mod csv;
pub(crate) mod losses;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod reader;
mod row;
mod writer;

/// One field of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell<'a> {
    Empty,
    Text(&'a str),
    Number(u64),
    Flag(bool),
    Real(f64),
}
