//! Rows as comma-separated values.

use std::convert::Infallible;
use std::io::Read;

use diode_core::Dataset;

use super::reader::Rows;
use super::{COLUMNS, WIDTH, check_columns, find_column, written};
use super::{Cell, writer};
use crate::FormatError;
use crate::input::delimited::Delimited;
use crate::input::source::Source;

pub(crate) fn encode(datasets: &[Dataset]) -> Vec<u8> {
    let written = written(datasets);
    let mut out = String::new();
    for (number, (column, _)) in COLUMNS.iter().zip(written).filter(|(_, written)| *written).enumerate() {
        out.push_str(if number > 0 { "," } else { "" });
        out.push_str(column.name);
    }
    out.push('\n');
    let write = |row: &[Cell<'_>; WIDTH]| -> Result<(), Infallible> {
        for (number, (cell, _)) in row.iter().zip(written).filter(|(_, written)| *written).enumerate() {
            if number > 0 {
                out.push(',');
            }
            write_cell(&mut out, cell);
        }
        out.push('\n');
        Ok(())
    };
    let Ok(()) = writer::rows(datasets, write, || Ok(()));
    out.into_bytes()
}

fn write_cell(out: &mut String, cell: &Cell<'_>) {
    use std::fmt::Write as _;
    // Writing to a String cannot fail.
    let _ = match cell {
        Cell::Empty => Ok(()),
        Cell::Text(text) if text.contains(['"', ',', '\n', '\r']) => {
            write!(out, "\"{}\"", text.replace('"', "\"\""))
        }
        Cell::Text(text) => out.write_str(text),
        Cell::Number(number) => write!(out, "{number}"),
        Cell::Flag(flag) => write!(out, "{flag}"),
        Cell::Real(real) => write!(out, "{real}"),
    };
}

pub(crate) fn decode<R: Read>(source: Source<R>) -> Result<Vec<Dataset>, FormatError> {
    let mut reader = Delimited::new(source, b',');
    let header = reader.record()?.map(<[String]>::to_vec).unwrap_or_default();
    let mut places = [None; WIDTH];
    for (at, name) in header.iter().enumerate() {
        if let Some(column) = find_column(name.trim())
            && places[column].replace(at).is_some()
        {
            return Err(reader.refuse(format_args!("duplicate column `{name}`")));
        }
    }
    check_columns(|column| places[column].is_some()).map_err(|cause| reader.refuse(cause))?;
    let mut rows = Rows::default();
    while let Some(record) = reader.record()? {
        let added = if record.len() == header.len() {
            rows.add(&places.map(|place| place.map_or(Cell::Empty, |at| Cell::Text(&record[at]))))
        } else {
            Err(format!("{} fields, expected {} as in the header", record.len(), header.len()))
        };
        added.map_err(|cause| reader.refuse(cause))?;
    }
    let datasets = rows.finish().map_err(|cause| reader.refuse(cause))?;
    Ok(datasets.into_iter().map(|(_, dataset)| dataset).collect())
}
