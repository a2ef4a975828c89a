use std::collections::BTreeSet;

use diode_api::{ProblemFilter, ProblemPoint, ProblemView};
use diode_core::Problem;
use diode_core::ids::{HardwareSlug, ProblemId};

use super::filter::push_filter;
use super::inserts::ROWS_PER_STATEMENT;
use super::summaries::micros;
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, parse};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;

/// Reads the column `fields` of a problem.
pub(super) fn problem_of(fields: &str) -> Result<Problem, Damaged> {
    from_json("problem", fields)
}

pub(super) async fn find(db: &mut Connection, id: &ProblemId) -> StoreResult<Option<Problem>> {
    let select = Statement::new("SELECT fields FROM problems WHERE id = $1").bind(id.as_str());
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    Ok(row.map(|(fields,)| problem_of(&fields)).transpose()?)
}

/// Locks some problems: until this transaction ends, no other can change what is computed from them.
pub(super) async fn lock<'p>(
    db: &mut Connection,
    problems: impl IntoIterator<Item = &'p ProblemId>,
) -> StoreResult<()> {
    // Always in the same order, so that two transactions cannot deadlock.
    let ids: BTreeSet<&str> = problems.into_iter().map(ProblemId::as_str).collect();
    for chunk in ids.into_iter().collect::<Vec<_>>().chunks(ROWS_PER_STATEMENT) {
        let select = Statement::new("SELECT id FROM problems WHERE id IN (").push_list(chunk.iter().copied());
        let _locked: Vec<(String,)> =
            db.fetch_all(select.push(") ORDER BY id").push(db.change_row())).await?;
    }
    Ok(())
}

pub(super) async fn views(db: &mut Connection, id: &ProblemId) -> StoreResult<Vec<ProblemView>> {
    let select = Statement::new(
        "SELECT DISTINCT hardware, method FROM solutions WHERE problem = $1 AND standing = 0 \
         ORDER BY hardware, method",
    );
    let rows: Vec<(String, String)> = db.fetch_all(select.bind(id.as_str())).await?;
    let view = |(hardware, method): (String, String)| {
        Ok(ProblemView { hardware: parse("hardware slug", hardware)?, method: parse("method", method)? })
    };
    rows.into_iter().map(view).collect()
}

struct PointRow {
    fields: String,
    method: String,
    tflops: f64,
    roofline_share: Option<f64>,
    best_ns: f64,
    triton_ns: Option<f64>,
    triton_roofline_share: Option<f64>,
    library_ns: Option<f64>,
    library_roofline_share: Option<f64>,
    triton_over_library: Option<f64>,
}

from_row!(PointRow {
    fields,
    method,
    tflops,
    roofline_share,
    best_ns,
    triton_ns,
    triton_roofline_share,
    library_ns,
    library_roofline_share,
    triton_over_library
});

impl PointRow {
    fn point(self) -> Result<ProblemPoint, Damaged> {
        let problem = problem_of(&self.fields)?;
        Ok(ProblemPoint {
            problem_id: problem.id(),
            method: parse("method", self.method)?,
            dims: problem.dims(),
            intensity: problem.flops() / problem.bytes(),
            problem,
            tflops: self.tflops,
            roofline_share: self.roofline_share,
            best_us: micros(self.best_ns),
            triton_us: self.triton_ns.map(micros),
            triton_roofline_share: self.triton_roofline_share,
            library_us: self.library_ns.map(micros),
            library_roofline_share: self.library_roofline_share,
            triton_over_library: self.triton_over_library,
        })
    }
}

pub(super) async fn points(
    db: &mut Connection,
    slug: &HardwareSlug,
    filter: &ProblemFilter,
    cap: u32,
) -> StoreResult<Vec<ProblemPoint>> {
    // Problem ids are digests, so the first ids are an even sample. They are read by the primary key: the plus
    // keeps SQLite from reading the whole index of rates instead.
    let select = Statement::new(
        "SELECT p.fields, e.* FROM (SELECT problem, method, tflops, roofline_share, best_ns, triton_ns, \
         triton_roofline_share, library_ns, library_roofline_share, triton_over_library, \
         ROW_NUMBER() OVER (PARTITION BY problem ORDER BY timings DESC, method) AS place FROM entries e",
    );
    let select = push_filter(select, slug, filter).push(
        " AND +e.tflops >= 0 AND e.problem <= (SELECT MAX(problem) FROM (SELECT DISTINCT problem FROM entries e",
    );
    let select = push_filter(select, slug, filter)
        .push(" AND +e.tflops >= 0 ORDER BY problem LIMIT ")
        .push_bind(i64::from(cap))
        .push(") AS first)) e JOIN problems p ON p.id = e.problem WHERE e.place = 1 ORDER BY e.problem");
    let rows: Vec<PointRow> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(PointRow::point).collect::<Result<_, _>>()?)
}
