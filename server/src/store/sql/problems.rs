use diode_core::Problem;
use diode_core::api::{ProblemPoint, ProblemView};
use diode_core::ids::{HardwareSlug, ProblemId};

use super::connection::Connection;
use super::fields::{from_json, parse};
use super::from_row::from_row;
use super::statement::Statement;
use super::summaries::micros;
use crate::solutions::Damaged;
use crate::store::error::StoreResult;

/// Reads the column `fields` of a problem.
pub(super) fn problem_of(fields: &str) -> Result<Problem, Damaged> {
    from_json("problem", fields)
}

pub(super) async fn find(db: &mut impl Connection, id: &ProblemId) -> StoreResult<Option<Problem>> {
    let select = Statement::new("SELECT fields FROM problems WHERE id = $1").bind(id.as_str());
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    Ok(row.map(|(fields,)| problem_of(&fields)).transpose()?)
}

pub(super) async fn views(db: &mut impl Connection, id: &ProblemId) -> StoreResult<Vec<ProblemView>> {
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
    tflops: f64,
    best_ns: f64,
}

from_row!(PointRow { fields, tflops, best_ns });

impl PointRow {
    fn point(self) -> Result<ProblemPoint, Damaged> {
        let problem = problem_of(&self.fields)?;
        Ok(ProblemPoint {
            problem_id: problem.id(),
            dims: problem.dims(),
            intensity: problem.flops() / problem.bytes(),
            tflops: self.tflops,
            best_us: micros(self.best_ns),
        })
    }
}

pub(super) async fn points(
    db: &mut impl Connection,
    slug: &HardwareSlug,
    cap: u32,
) -> StoreResult<Vec<ProblemPoint>> {
    // Problem ids are digests, so the first of them are an even sample. They are read along the primary
    // key; the plus keeps SQLite from walking the whole index of rates instead.
    let select = Statement::new(
        "SELECT p.fields, e.tflops, e.best_ns FROM ( \
             SELECT problem, tflops, best_ns, \
                    ROW_NUMBER() OVER (PARTITION BY problem ORDER BY timings DESC, method) AS place \
             FROM entries WHERE hardware = $1 AND +tflops >= 0 AND problem <= ( \
                 SELECT MAX(problem) FROM ( \
                     SELECT DISTINCT problem FROM entries WHERE hardware = $1 AND +tflops >= 0 \
                     ORDER BY problem LIMIT $2 \
                 ) AS first \
             ) \
         ) e JOIN problems p ON p.id = e.problem WHERE e.place = 1 ORDER BY e.problem",
    )
    .bind(slug.as_str())
    .bind(i64::from(cap));
    let rows: Vec<PointRow> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(PointRow::point).collect::<Result<_, _>>()?)
}
