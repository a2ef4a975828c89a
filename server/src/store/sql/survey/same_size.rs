use diode_api::NearestProblem;
use diode_core::ids::HardwareSlug;
use diode_core::table::distance;
use diode_core::{Layout, Method, Op, Problem};

use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::sql::board_entries;
use crate::store::sql::nearest::described;
use crate::store::sql::problems::problem_of;
use crate::store::statement::Statement;
use crate::store::types::View;

/// The most problems that are read: enough, because problems of the same size and type differ only in op, bias
/// and layouts.
const MOST: i64 = 64;

/// `db` must be a transaction whose queries all see the same state.
pub(super) async fn same_size(
    db: &mut Connection,
    slug: &HardwareSlug,
    wanted: &Problem,
    method: Method,
) -> StoreResult<Vec<NearestProblem>> {
    let ops = Op::ALL.iter().filter(|op| op.is_batched() == wanted.op.is_batched());
    let select = Statement::new(
        "SELECT p.fields FROM entries e JOIN problems p ON p.id = e.problem WHERE e.hardware = ",
    )
    .push_bind(slug.as_str())
    .push(" AND e.op IN (")
    .push_list(ops.map(|op| op.as_str()))
    .push(") AND e.a_dtype = ")
    .push_bind(wanted.a_dtype.as_str())
    .push(" AND e.b_layout IN (")
    .push_list(Layout::ALL.iter().map(|layout| layout.as_str()))
    .push(") AND e.method = ")
    .push_bind(method.to_string())
    .push(" AND e.m = ")
    .push_bind(wanted.m)
    .push(" AND e.n = ")
    .push_bind(wanted.n)
    .push(" AND e.k = ")
    .push_bind(wanted.k)
    .push(" AND p.b = ")
    .push_bind(wanted.b)
    .push(" ORDER BY e.problem LIMIT ")
    .push_bind(MOST);
    let rows: Vec<(String,)> = db.fetch_all(select).await?;
    let mut found = Vec::new();
    for (fields,) in rows {
        let problem = problem_of(&fields)?;
        let Some(distance) = distance(wanted, &problem) else { continue };
        let view = View { hardware: slug.clone(), problem: problem.id(), method };
        let entry = board_entries::find(db, &view).await?;
        found.extend(entry.map(|entry| described(view, problem, distance, entry)));
    }
    found.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    Ok(found)
}
