//! Inserts of many rows at once.

use diode_core::Problem;
use diode_core::ids::{AccountId, Digest, ProblemId, UploadId};

use crate::solutions::Damaged;
use crate::store::fields::json;
use crate::store::statement::Statement;
use crate::store::types::{NewSolution, View};

/// With so many rows, a statement stays far below the limit of bound values of either database, and round trips
/// take little of the time.
pub(super) const ROWS_PER_STATEMENT: usize = 200;

pub(super) fn config_lists(lists: &[(&Digest, &Vec<u8>)]) -> Statement {
    let rows = lists.iter().map(|(digest, bytes)| [digest.as_str().into(), (*bytes).clone().into()]);
    Statement::new("INSERT INTO config_lists (digest, packed)")
        .push_rows(rows)
        .push(" ON CONFLICT DO NOTHING")
}

pub(super) fn problems(problems: &[(&ProblemId, &Problem)]) -> Result<Statement, Damaged> {
    let row = |(id, problem): &(&ProblemId, &Problem)| {
        Ok([
            id.as_str().into(),
            problem.canonical().into(),
            problem.op.as_str().into(),
            problem.b.into(),
            problem.m.into(),
            problem.n.into(),
            problem.k.into(),
            problem.a_dtype.as_str().into(),
            problem.b_layout.as_str().into(),
            problem.flops().into(),
            json("problem", problem)?.into(),
        ])
    };
    let rows: Result<Vec<_>, Damaged> = problems.iter().map(row).collect();
    let insert = "INSERT INTO problems (id, canonical, op, b, m, n, k, a_dtype, b_layout, flops, fields)";
    Ok(Statement::new(insert).push_rows(rows?).push(" ON CONFLICT DO NOTHING"))
}

pub(super) fn stale_entries(views: &[&View]) -> Statement {
    let rows = views.iter().map(|view| {
        [view.hardware.as_str().into(), view.problem.as_str().into(), view.method.to_string().into()]
    });
    Statement::new("INSERT INTO stale_entries (hardware, problem, method)")
        .push_rows(rows)
        .push(" ON CONFLICT DO NOTHING")
}

/// Returns the digests of the solutions that were new.
pub(super) fn solutions(contributor: Option<&AccountId>, solutions: &[NewSolution]) -> Statement {
    let rows = solutions.iter().map(|solution| {
        [
            solution.digest.as_str().into(),
            solution.hardware.as_str().into(),
            solution.problem.as_str().into(),
            solution.method.to_string().into(),
            contributor.map(AccountId::as_str).into(),
            solution.config_list.as_str().into(),
            solution.columns.clone().into(),
            solution.timings.into(),
            solution.failures.into(),
            solution.best_ns.into(),
        ]
    });
    Statement::new(
        "INSERT INTO solutions (digest, hardware, problem, method, contributor, config_list, columns, timings, \
         failures, best_ns)",
    )
    .push_rows(rows)
    .push(" ON CONFLICT DO NOTHING RETURNING digest")
}

/// Stores that an upload sent these solutions. They must be stored already.
pub(super) fn sent(upload: &UploadId, solutions: &[NewSolution]) -> Statement {
    Statement::new("INSERT INTO sent (solution, upload) SELECT id, ")
        .push_bind(upload.as_str())
        .push(" FROM solutions WHERE digest IN (")
        .push_list(solutions.iter().map(|solution| solution.digest.as_str()))
        .push(") ON CONFLICT DO NOTHING")
}
