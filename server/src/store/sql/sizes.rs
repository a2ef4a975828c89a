//! The sizes of solutions and problems, by which exports are cut into parts. These queries read only indexes.

use diode_core::Method;
use diode_core::ids::{HardwareSlug, ProblemId};

use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{parse, unsigned};
use crate::store::statement::Statement;

pub(super) async fn solutions(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Vec<(i64, u64)>> {
    let select =
        "SELECT id, timings + failures FROM solutions WHERE hardware = $1 AND standing = 0 ORDER BY id";
    let rows: Vec<(i64, i64)> = db.fetch_all(Statement::new(select).bind(slug.as_str())).await?;
    Ok(rows
        .into_iter()
        .map(|(id, size)| Ok((id, unsigned("size", size)?)))
        .collect::<Result<_, Damaged>>()?)
}

pub(super) async fn methods(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Vec<(Method, u64)>> {
    let select = "SELECT method, CAST(SUM(timings) AS BIGINT) FROM solutions WHERE hardware = $1 AND standing = 0 \
                  GROUP BY method ORDER BY method";
    let rows: Vec<(String, i64)> = db.fetch_all(Statement::new(select).bind(slug.as_str())).await?;
    let size = |(method, size)| Ok((parse("method", method)?, unsigned("size", size)?));
    Ok(rows.into_iter().map(size).collect::<Result<_, Damaged>>()?)
}

pub(super) async fn problems(
    db: &mut Connection,
    slug: &HardwareSlug,
    method: Method,
) -> StoreResult<Vec<(ProblemId, u64)>> {
    let select = "SELECT problem, CAST(SUM(timings) AS BIGINT) FROM solutions \
                  WHERE hardware = $1 AND method = $2 AND standing = 0 GROUP BY problem ORDER BY problem";
    let select = Statement::new(select).bind(slug.as_str()).bind(method.to_string());
    let rows: Vec<(String, i64)> = db.fetch_all(select).await?;
    let size = |(problem, size)| Ok((parse("problem id", problem)?, unsigned("size", size)?));
    Ok(rows.into_iter().map(size).collect::<Result<_, Damaged>>()?)
}
