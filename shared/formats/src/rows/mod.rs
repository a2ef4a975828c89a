//! Datasets as rows, one per timing: the common part of CSV and Parquet. The
//! columns are described in `docs/reference/formats.md`.

mod columns;
pub(crate) mod csv;
pub(crate) mod losses;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod reader;
mod row;
mod writer;

/// A field of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell<'a> {
    Empty,
    Text(&'a str),
    Number(u64),
    Flag(bool),
    Real(f64),
}
