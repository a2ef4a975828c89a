//! The measured problems that are most like a given one.
//!
//! The query follows the index of shapes in both directions, beginning at the given sizes. So the cost of a
//! request does not grow with the number of problems.

use diode_api::NearestProblem;
use diode_core::ids::HardwareSlug;
use diode_core::table::distance;
use diode_core::{Layout, Method, Op, Problem};

use super::board_entries;
use super::problems::problem_of;
use crate::consensus::{BoardEntry, KernelEntry};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;
use crate::store::types::View;

/// How many problems of one op and layout are read in one direction. Two ops, two layouts and two directions
/// make at most 2,048 problems.
const WALK: i64 = 256;

/// `db` must be a transaction whose queries all see the same state.
pub(super) async fn nearest(
    db: &mut Connection,
    slug: &HardwareSlug,
    wanted: &Problem,
    method: Method,
    limit: u32,
) -> StoreResult<Vec<NearestProblem>> {
    let mut near: Vec<(f64, Problem)> = Vec::new();
    for op in Op::ALL.iter().filter(|op| op.is_batched() == wanted.op.is_batched()) {
        for layout in Layout::ALL {
            for onward in [true, false] {
                let rows: Vec<(String,)> =
                    db.fetch_all(walk(slug, wanted, *op, *layout, method, onward)).await?;
                for (fields,) in rows {
                    let problem = problem_of(&fields)?;
                    near.extend(distance(wanted, &problem).map(|distance| (distance, problem)));
                }
            }
        }
    }
    // Problems at equal distances have the order of their names, so that the answer is always the same.
    near.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.canonical().cmp(&b.1.canonical())));
    let mut found = Vec::new();
    for (distance, problem) in near.into_iter().take(limit as usize) {
        let view = View { hardware: slug.clone(), problem: problem.id(), method };
        let Some(entry) = board_entries::find(db, &view).await? else { continue };
        found.push(described(view, problem, distance, entry));
    }
    Ok(found)
}

/// A problem at a distance, with its entry.
pub(super) fn described(view: View, problem: Problem, distance: f64, entry: BoardEntry) -> NearestProblem {
    NearestProblem {
        problem_id: view.problem,
        problem,
        method: view.method,
        distance,
        triton: entry.triton.map(KernelEntry::result),
        library: entry.library.map(KernelEntry::result),
        triton_over_library: entry.triton_over_library,
    }
}

fn walk(
    slug: &HardwareSlug,
    wanted: &Problem,
    op: Op,
    layout: Layout,
    method: Method,
    onward: bool,
) -> Statement {
    let (from, order) = if onward {
        (") >= (", ") ORDER BY e.m, e.n, e.k LIMIT ")
    } else {
        (") < (", ") ORDER BY e.m DESC, e.n DESC, e.k DESC LIMIT ")
    };
    Statement::new("SELECT p.fields FROM entries e JOIN problems p ON p.id = e.problem WHERE e.hardware = ")
        .push_bind(slug.as_str())
        .push(" AND e.op = ")
        .push_bind(op.as_str())
        .push(" AND e.a_dtype = ")
        .push_bind(wanted.a_dtype.as_str())
        .push(" AND e.b_layout = ")
        .push_bind(layout.as_str())
        .push(" AND e.method = ")
        .push_bind(method.to_string())
        .push(" AND (e.m, e.n, e.k")
        .push(from)
        .push_list([wanted.m, wanted.n, wanted.k])
        .push(order)
        .push_bind(WALK)
}
