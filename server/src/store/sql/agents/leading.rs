use diode_core::{Nanos, Problem, Tflops};

use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;
use crate::store::types::NewSolution;

/// How many problems form the top of a board. Here a board has the problems of one operator and one type.
const TOP: i64 = 5;
/// A board with fewer problems has no top, because almost every problem would be in it.
const ENOUGH: i64 = 40;

/// Whether the best time of a solution puts its problem at the top of its board. Counts the entries that
/// exist by now.
pub(super) async fn leads(
    db: &mut Connection,
    solution: &NewSolution,
    problem: &Problem,
) -> StoreResult<bool> {
    let Some(best_ns) = solution.best_ns else { return Ok(false) };
    let own = Tflops::from_work(problem.flops(), Nanos(best_ns).micros()).0;
    let board = || {
        Statement::new("SELECT COUNT(*) FROM (SELECT 1 AS one FROM entries WHERE hardware = ")
            .push_bind(solution.hardware.as_str())
            .push(" AND method = ")
            .push_bind(solution.method.to_string())
            .push(" AND op = ")
            .push_bind(problem.op.as_str())
            .push(" AND a_dtype = ")
            .push_bind(problem.a_dtype.as_str())
            .push(" AND problem <> ")
            .push_bind(solution.problem.as_str())
    };
    let limited =
        |select: Statement, number: i64| select.push(" LIMIT ").push_bind(number).push(") AS counted");
    let faster = limited(board().push(" AND tflops > ").push_bind(own), TOP);
    let (faster,): (i64,) = db.fetch_one(faster).await?;
    if faster == TOP {
        return Ok(false);
    }
    let (all,): (i64,) = db.fetch_one(limited(board(), ENOUGH)).await?;
    Ok(all == ENOUGH)
}
