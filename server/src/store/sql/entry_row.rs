//! The columns of an entry. What boards are filtered or sorted by, and what queries add up, is a column; the whole
//! entry is one JSON value.

use diode_core::Problem;

use crate::consensus::{BoardEntry, KernelEntry};
use crate::solutions::Damaged;
use crate::store::fields::{from_json, json};
use crate::store::statement::{Statement, Value};
use crate::store::types::View;

/// The columns that boards are sorted by, with their values. Each order has an index.
const SORTED: [(&str, fn(&BoardEntry) -> Option<f64>); 13] = [
    ("best_ns", |entry| Some(entry.best_ns)),
    ("tflops", |entry| entry.tflops),
    ("roofline_share", |entry| entry.roofline_share),
    ("gain_over_defaults", |entry| entry.gain_over_defaults),
    ("triton_ns", |entry| entry.triton.as_ref().map(|kernel| kernel.ns)),
    ("triton_tflops", |entry| of(&entry.triton, |kernel| kernel.tflops)),
    ("triton_roofline_share", |entry| of(&entry.triton, |kernel| kernel.roofline_share)),
    ("triton_gain", |entry| of(&entry.triton, |kernel| kernel.gain_over_defaults)),
    ("library_ns", |entry| entry.library.as_ref().map(|kernel| kernel.ns)),
    ("library_tflops", |entry| of(&entry.library, |kernel| kernel.tflops)),
    ("library_roofline_share", |entry| of(&entry.library, |kernel| kernel.roofline_share)),
    ("library_gain", |entry| of(&entry.library, |kernel| kernel.gain_over_defaults)),
    ("triton_over_library", |entry| entry.triton_over_library),
];

fn of(kernel: &Option<KernelEntry>, value: fn(&KernelEntry) -> Option<f64>) -> Option<f64> {
    kernel.as_ref().and_then(value)
}

/// Reads the column `entry`.
pub(super) fn read(entry: &str) -> Result<BoardEntry, Damaged> {
    from_json("board entry", entry)
}

/// Adds entries, or replaces those of the same views.
pub(super) fn insert(entries: &[(&View, Problem, BoardEntry)]) -> Result<Statement, Damaged> {
    let row = |(view, problem, entry): &(&View, Problem, BoardEntry)| -> Result<Vec<Value>, Damaged> {
        let mut row = vec![
            view.hardware.as_str().into(),
            view.problem.as_str().into(),
            view.method.to_string().into(),
            problem.op.as_str().into(),
            problem.a_dtype.as_str().into(),
            problem.b_layout.as_str().into(),
            problem.m.into(),
            problem.n.into(),
            problem.k.into(),
            problem.flops().into(),
            entry.timings.into(),
            entry.solutions.into(),
            json("board entry", entry)?.into(),
        ];
        row.extend(SORTED.iter().map(|(_, value)| value(entry).into()));
        Ok(row)
    };
    let rows = entries.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    let mut insert = Statement::new(
        "INSERT INTO entries \
         (hardware, problem, method, op, a_dtype, b_layout, m, n, k, flops, timings, solutions, entry",
    );
    for (column, _) in SORTED {
        insert = insert.push(", ").push(column);
    }
    insert = insert.push(")").push_rows(rows).push(
        " ON CONFLICT (hardware, problem, method) DO UPDATE SET timings = excluded.timings, \
         solutions = excluded.solutions, entry = excluded.entry",
    );
    for (column, _) in SORTED {
        insert = insert.push(", ").push(column).push(" = excluded.").push(column);
    }
    Ok(insert)
}

/// Counts the entries of a view whose columns are those of `entry`: one, or none if they were tampered with.
pub(super) fn count_equal(view: &View, entry: &BoardEntry) -> Statement {
    let mut count = Statement::new("SELECT COUNT(*) FROM entries WHERE hardware = ")
        .push_bind(view.hardware.as_str())
        .push(" AND problem = ")
        .push_bind(view.problem.as_str())
        .push(" AND method = ")
        .push_bind(view.method.to_string())
        .push(" AND timings = ")
        .push_bind(entry.timings)
        .push(" AND solutions = ")
        .push_bind(entry.solutions);
    for (column, value) in SORTED {
        count = count.push(" AND ").push(column).push(" IS NOT DISTINCT FROM ").push_bind(value(entry));
    }
    count
}
