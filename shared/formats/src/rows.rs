//! Datasets as rows, one per timing: what CSV and Parquet share. `docs/reference/formats.md`
//! describes the columns.

#[cfg(feature = "parquet")]
pub(crate) mod parquet;
mod reader;
mod row;
mod writer;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io::Read;

use diode_core::Dataset;
use diode_core::hardware::Hardware;

use crate::FormatError;
use crate::format::ANY;
use crate::input::Source;
use crate::input::delimited::Delimited;
use crate::rows::reader::Rows;

/// One field of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cell<'a> {
    Empty,
    Text(&'a str),
    Number(u64),
    Flag(bool),
    Real(f64),
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnType {
    Text,
    Number,
    Flag,
    Real,
}

struct Column {
    name: &'static str,
    /// The type of the column in Parquet. CSV has only text.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code))]
    kind: ColumnType,
    /// Whether every row has a value.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code))]
    full: bool,
    /// Whether a file has the column only if a row has a value. Files without such rows stay as they were
    /// before the column existed.
    late: bool,
}

const fn full(name: &'static str, kind: ColumnType) -> Column {
    Column { name, kind, full: true, late: false }
}

const fn sparse(name: &'static str, kind: ColumnType) -> Column {
    Column { name, kind, full: false, late: false }
}

const fn late(name: &'static str, kind: ColumnType) -> Column {
    Column { name, kind, full: false, late: true }
}

const COLUMNS: [Column; 46] = [
    full("dataset", ColumnType::Number),
    full("solution", ColumnType::Number),
    full("hardware", ColumnType::Text),
    full("hardware_name", ColumnType::Text),
    full("vendor", ColumnType::Text),
    full("op", ColumnType::Text),
    full("b", ColumnType::Number),
    full("m", ColumnType::Number),
    full("n", ColumnType::Number),
    full("k", ColumnType::Number),
    full("a_dtype", ColumnType::Text),
    full("b_dtype", ColumnType::Text),
    full("out_dtype", ColumnType::Text),
    full("a_layout", ColumnType::Text),
    full("b_layout", ColumnType::Text),
    full("bias", ColumnType::Text),
    sparse("out_size", ColumnType::Text),
    sparse("out_stride", ColumnType::Text),
    late("scaling", ColumnType::Text),
    late("groups", ColumnType::Number),
    late("top_k", ColumnType::Number),
    late("stage", ColumnType::Text),
    late("rows", ColumnType::Text),
    full("method", ColumnType::Text),
    full("template", ColumnType::Text),
    sparse("block_m", ColumnType::Number),
    sparse("block_n", ColumnType::Number),
    sparse("block_k", ColumnType::Number),
    sparse("group_m", ColumnType::Number),
    sparse("num_stages", ColumnType::Number),
    sparse("num_warps", ColumnType::Number),
    sparse("even_k", ColumnType::Flag),
    sparse("allow_tf32", ColumnType::Flag),
    sparse("use_fast_accum", ColumnType::Flag),
    sparse("acc_type", ColumnType::Text),
    sparse("matrix_instr_nonkdim", ColumnType::Number),
    sparse("waves_per_eu", ColumnType::Number),
    sparse("kpack", ColumnType::Number),
    sparse("k_split", ColumnType::Number),
    late("swap_ab", ColumnType::Flag),
    sparse("time_ns", ColumnType::Number),
    sparse("time_ms", ColumnType::Real),
    sparse("minimum_ns", ColumnType::Number),
    sparse("spread_ns", ColumnType::Number),
    sparse("repeats", ColumnType::Number),
    sparse("failure", ColumnType::Text),
];

const WIDTH: usize = COLUMNS.len();

/// How many columns name the solution of a row. They stand first, before the config and what was
/// measured.
const SUBJECT: usize = place("template");

/// The place of a column. An unknown name is an error when the program is built.
const fn place(name: &str) -> usize {
    let mut place = 0;
    while place < WIDTH {
        if same(COLUMNS[place].name.as_bytes(), name.as_bytes()) {
            return place;
        }
        place += 1;
    }
    panic!("no such column")
}

/// The place of a column, found when the program is built.
macro_rules! at {
    ($name:literal) => {
        const { $crate::rows::place($name) }
    };
}

use at;

/// The place of a column, or `None` if this format has no such column.
fn find_column(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|column| column.name == name)
}

/// Which columns a file of these datasets has.
fn written(datasets: &[Dataset]) -> [bool; WIDTH] {
    let is_late = |dataset: &Dataset| {
        dataset.solutions.iter().any(|solution| !solution.problem.op.is_plain())
            || dataset.configs.iter().any(|config| config.tile().is_some_and(|tile| tile.swap_ab))
    };
    let has_late = datasets.iter().any(is_late);
    COLUMNS.map(|column| has_late || !column.late)
}

/// The columns that every file must have. The others have defaults.
const NEEDED: [&str; 6] = ["hardware", "op", "m", "n", "k", "a_dtype"];

/// Checks that a file has all needed columns.
fn check_columns(has: impl Fn(usize) -> bool) -> Result<(), String> {
    for name in NEEDED {
        if !has(place(name)) {
            return Err(format!("no column `{name}`, expected at least {}", NEEDED.join(", ")));
        }
    }
    if !has(place("time_ms")) && !has(place("time_ns")) {
        return Err("neither a column `time_ms` nor `time_ns`".to_owned());
    }
    Ok(())
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// A problem without timings and failures has no row.
const EMPTY: &str = "problems without any timing or failure";

/// The losses, with the number of problems that each concerns.
pub(crate) fn losses(datasets: &[Dataset]) -> BTreeMap<&'static str, usize> {
    let empty = datasets.iter().flat_map(|dataset| &dataset.solutions).filter(|s| is_empty(s)).count();
    if empty == 0 { BTreeMap::new() } else { BTreeMap::from([(EMPTY, empty)]) }
}

/// The same datasets without what rows cannot hold.
pub(crate) fn reduce(datasets: &[Dataset]) -> Vec<Dataset> {
    let mut datasets = datasets.to_vec();
    for dataset in &mut datasets {
        dataset.solutions.retain(|solution| !is_empty(solution));
    }
    datasets
}

fn is_empty(solution: &diode_core::Solution) -> bool {
    solution.configs.is_empty() && solution.failures.is_empty()
}

/// Whether the facts of some hardware differ from those that its name alone gives.
pub(crate) fn has_own_facts(hardware: &Hardware) -> bool {
    hardware.facts.is_some() && Hardware::from_name(&hardware.name).as_ref() != Ok(hardware)
}

/// Writes rows as comma-separated values.
pub(crate) fn encode_csv(datasets: &[Dataset]) -> Vec<u8> {
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

/// The first row, and the place of each column in it. Fails if it names no column at all.
fn header<R: Read>(reader: &mut Delimited<R>) -> Result<(Vec<String>, [Option<usize>; WIDTH]), FormatError> {
    let header = reader.record()?.map(<[String]>::to_vec).unwrap_or_default();
    let mut places = [None; WIDTH];
    for (at, name) in header.iter().enumerate() {
        if let Some(column) = find_column(name.trim())
            && places[column].replace(at).is_some()
        {
            return Err(reader.refuse(format_args!("duplicate column `{name}`")));
        }
    }
    if !header.iter().any(|name| find_column(&name.trim().to_ascii_lowercase()).is_some()) {
        return Err(FormatError::Unexpected { found: "text that is no table".to_owned(), expected: ANY });
    }
    Ok((header, places))
}

/// Fails if a text is no table.
pub(crate) fn check_csv<R: Read>(source: Source<R>) -> Result<(), FormatError> {
    header(&mut Delimited::new(source, b',')).map(|_| ())
}

/// Reads comma-separated values, with columns in any order.
pub(crate) fn decode_csv<R: Read>(source: Source<R>) -> Result<Vec<Dataset>, FormatError> {
    let mut reader = Delimited::new(source, b',');
    let (header, places) = header(&mut reader)?;
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
