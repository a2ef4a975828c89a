//! Problems from a JSON list: either every field of a problem, or the short form
//! that `diode shapes --json` prints.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context as _;
use diode_core::Problem;
use serde::Deserialize;

use super::ShortProblem;

/// Larger lists are no work for one node.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Deserialize)]
#[serde(untagged)]
enum Row {
    Whole(Problem),
    Short(ShortProblem),
}

/// The problems of a list, each once, and how many were repeated.
pub(crate) fn read_problems(path: &Path) -> anyhow::Result<(Vec<Problem>, usize)> {
    let shown = path.display();
    let size = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
    anyhow::ensure!(size <= MAX_BYTES, "{shown}: got {size} bytes, expected at most {MAX_BYTES}");
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let rows: Vec<serde_json::Value> =
        serde_json::from_str(&text).with_context(|| format!("{shown}: expected a JSON list of problems"))?;
    let (mut problems, mut seen, mut repeated) = (Vec::new(), HashSet::new(), 0);
    for (number, row) in (1..).zip(rows) {
        let problem = problem(row).with_context(|| format!("{shown}: problem {number}"))?;
        if seen.insert(problem.id()) {
            problems.push(problem);
        } else {
            repeated += 1;
        }
    }
    anyhow::ensure!(!problems.is_empty(), "{shown}: expected at least one problem");
    Ok((problems, repeated))
}

fn problem(row: serde_json::Value) -> anyhow::Result<Problem> {
    let row = serde_json::from_value(row).context(
        "expected {op, b, m, n, k, dtype} and b_layout where B is in columns, or {op, b, m, n, k, a_dtype, b_dtype, out_dtype, a_layout, b_layout, bias}",
    )?;
    Ok(match row {
        Row::Whole(problem) => problem,
        Row::Short(short) => short.problem()?,
    })
}
