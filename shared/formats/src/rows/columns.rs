//! The columns and their order.

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Flag,
    Real,
}

pub(super) struct Column {
    pub(super) name: &'static str,
    /// Used where columns are typed. CSV has only text.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code))]
    pub(super) kind: Kind,
    /// Whether every row has a value.
    #[cfg_attr(not(feature = "parquet"), expect(dead_code))]
    pub(super) full: bool,
}

const fn full(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, full: true }
}

const fn sparse(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, full: false }
}

pub(super) const COLUMNS: [Column; 40] = [
    full("dataset", Kind::Number),
    full("solution", Kind::Number),
    full("hardware", Kind::Text),
    full("hardware_name", Kind::Text),
    full("vendor", Kind::Text),
    full("op", Kind::Text),
    full("b", Kind::Number),
    full("m", Kind::Number),
    full("n", Kind::Number),
    full("k", Kind::Number),
    full("a_dtype", Kind::Text),
    full("b_dtype", Kind::Text),
    full("out_dtype", Kind::Text),
    full("a_layout", Kind::Text),
    full("b_layout", Kind::Text),
    full("bias", Kind::Text),
    sparse("out_size", Kind::Text),
    sparse("out_stride", Kind::Text),
    full("method", Kind::Text),
    full("template", Kind::Text),
    sparse("block_m", Kind::Number),
    sparse("block_n", Kind::Number),
    sparse("block_k", Kind::Number),
    sparse("group_m", Kind::Number),
    sparse("num_stages", Kind::Number),
    sparse("num_warps", Kind::Number),
    sparse("even_k", Kind::Flag),
    sparse("allow_tf32", Kind::Flag),
    sparse("use_fast_accum", Kind::Flag),
    sparse("acc_type", Kind::Text),
    sparse("matrix_instr_nonkdim", Kind::Number),
    sparse("waves_per_eu", Kind::Number),
    sparse("kpack", Kind::Number),
    sparse("k_split", Kind::Number),
    sparse("time_ns", Kind::Number),
    sparse("time_ms", Kind::Real),
    sparse("minimum_ns", Kind::Number),
    sparse("spread_ns", Kind::Number),
    sparse("repeats", Kind::Number),
    sparse("failure", Kind::Text),
];

pub(super) const WIDTH: usize = COLUMNS.len();

/// How many columns, from the first, name the solution of a row: all but the config and what
/// was measured.
pub(super) const SUBJECT: usize = place("template");

/// The place of a column. An unknown name stops the build.
pub(super) const fn place(name: &str) -> usize {
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
        const { $crate::rows::columns::place($name) }
    };
}
pub(super) use at;

/// The place of a column; `None` for a column that is not ours.
pub(super) fn find_column(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|column| column.name == name)
}

/// Columns that must be there. The others have defaults.
const NEEDED: [&str; 6] = ["hardware", "op", "m", "n", "k", "a_dtype"];

/// Checks that a file has the columns that it needs.
pub(super) fn check_columns(has: impl Fn(usize) -> bool) -> Result<(), String> {
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
