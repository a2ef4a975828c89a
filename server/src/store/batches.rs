//! Many rows per statement: the inserts that both databases take word for word.

use diode_core::Problem;
use diode_core::ids::{Digest, ProblemId, UploadId};
use sqlx::{Database, Encode, QueryBuilder, Type};

use super::rows::{count, json};
use super::{Entry, NewSolution, StoreResult, View};

/// Few enough that a statement stays far below either database's limit of bound
/// values, many enough that the round trips do not matter.
pub(super) const ROWS_PER_STATEMENT: usize = 200;

/// A value that a database can be given.
pub(super) trait Bind<DB: Database>: for<'q> Encode<'q, DB> + Type<DB> + 'static {}

impl<DB: Database, T: for<'q> Encode<'q, DB> + Type<DB> + 'static> Bind<DB> for T {}

pub(super) fn config_lists<DB: Database>(lists: &[(&Digest, &Vec<u8>)]) -> QueryBuilder<DB>
where
    String: Bind<DB>,
    Vec<u8>: Bind<DB>,
{
    let mut insert = QueryBuilder::new("INSERT INTO config_lists (digest, packed) ");
    insert.push_values(lists, |mut row, (digest, packed)| {
        row.push_bind(digest.to_string()).push_bind((*packed).clone());
    });
    insert.push(" ON CONFLICT DO NOTHING");
    insert
}

pub(super) fn problems<DB: Database>(problems: &[(&ProblemId, &Problem)]) -> StoreResult<QueryBuilder<DB>>
where
    String: Bind<DB>,
    i64: Bind<DB>,
    f64: Bind<DB>,
{
    let mut insert = QueryBuilder::new(
        "INSERT INTO problems (id, canonical, op, b, m, n, k, a_dtype, b_layout, flops, fields) ",
    );
    let fields: StoreResult<Vec<String>> = problems.iter().map(|(_, p)| json("problem", p)).collect();
    insert.push_values(problems.iter().zip(fields?), |mut row, ((id, problem), fields)| {
        row.push_bind(id.to_string()).push_bind(problem.canonical()).push_bind(problem.op.to_string());
        for size in [problem.b, problem.m, problem.n, problem.k] {
            row.push_bind(count(size));
        }
        row.push_bind(problem.a_dtype.to_string())
            .push_bind(problem.b_layout.to_string())
            .push_bind(problem.flops())
            .push_bind(fields);
    });
    insert.push(" ON CONFLICT DO NOTHING");
    Ok(insert)
}

/// Returns the digests of those that were new.
pub(super) fn solutions<DB: Database>(upload: &UploadId, solutions: &[NewSolution]) -> QueryBuilder<DB>
where
    String: Bind<DB>,
    Vec<u8>: Bind<DB>,
    i64: Bind<DB>,
    Option<f64>: Bind<DB>,
{
    let mut insert = QueryBuilder::new(
        "INSERT INTO solutions (digest, hardware, problem, method, upload, config_list, columns, timings, \
         failures, best_ns) ",
    );
    insert.push_values(solutions, |mut row, solution| {
        row.push_bind(solution.digest.to_string())
            .push_bind(solution.hardware.to_string())
            .push_bind(solution.problem.to_string())
            .push_bind(solution.method.to_string())
            .push_bind(upload.to_string())
            .push_bind(solution.config_list.to_string())
            .push_bind(solution.columns.clone())
            .push_bind(count(solution.timings))
            .push_bind(count(solution.failures))
            .push_bind(solution.best_ns);
    });
    insert.push(" ON CONFLICT DO NOTHING RETURNING digest");
    insert
}

pub(super) fn entries<DB: Database>(entries: &[(View, Entry)]) -> StoreResult<QueryBuilder<DB>>
where
    String: Bind<DB>,
    i64: Bind<DB>,
    f64: Bind<DB>,
    Option<f64>: Bind<DB>,
{
    let mut insert = QueryBuilder::new(
        "INSERT INTO entries (hardware, problem, method, best, best_ns, tflops, roofline_share, \
         gain_over_defaults, library_ns, configs, timings, solutions) ",
    );
    let best: StoreResult<Vec<String>> = entries.iter().map(|(_, e)| json("config", &e.best)).collect();
    insert.push_values(entries.iter().zip(best?), |mut row, ((view, entry), best)| {
        row.push_bind(view.hardware.to_string())
            .push_bind(view.problem.to_string())
            .push_bind(view.method.to_string())
            .push_bind(best)
            .push_bind(entry.best_ns)
            .push_bind(entry.tflops)
            .push_bind(entry.roofline_share)
            .push_bind(entry.gain_over_defaults)
            .push_bind(entry.library_ns)
            .push_bind(count(entry.configs))
            .push_bind(count(entry.timings))
            .push_bind(count(entry.solutions));
    });
    insert.push(
        " ON CONFLICT (hardware, problem, method) DO UPDATE SET best = excluded.best, \
         best_ns = excluded.best_ns, tflops = excluded.tflops, roofline_share = excluded.roofline_share, \
         gain_over_defaults = excluded.gain_over_defaults, library_ns = excluded.library_ns, \
         configs = excluded.configs, timings = excluded.timings, solutions = excluded.solutions",
    );
    Ok(insert)
}
