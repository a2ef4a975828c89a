//! The solutions of several views at once. If views were loaded one by one, each would need a round trip.

use std::collections::{BTreeMap, BTreeSet};

use diode_core::ids::ProblemId;

use super::problems::problem_of;
use super::solutions::SolutionRow;
use crate::solutions::StoredSolutions;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;
use crate::store::types::View;

/// The views as a table `wanted`, which a query can join.
pub(super) fn wanted(views: &[&View]) -> Statement {
    let rows = views.iter().map(|view| {
        [view.hardware.as_str().into(), view.problem.as_str().into(), view.method.to_string().into()]
    });
    Statement::new("WITH wanted (hardware, problem, method) AS (").push_rows(rows).push(")")
}

/// Joins the views in `wanted` with their solutions `s`.
pub(super) const SOLUTIONS: &str = " FROM wanted w JOIN solutions s \
    ON s.hardware = w.hardware AND s.problem = w.problem AND s.method = w.method";

/// How many timings each view has. Views without solutions are left out.
pub(super) async fn timings(db: &mut Connection, views: &[&View]) -> StoreResult<BTreeMap<View, u64>> {
    let select = wanted(views)
        .push(" SELECT s.hardware, s.problem, s.method, CAST(SUM(s.timings) AS BIGINT)")
        .push(SOLUTIONS)
        .push(" WHERE s.standing < 2 GROUP BY s.hardware, s.problem, s.method");
    let rows: Vec<(String, String, String, i64)> = db.fetch_all(select).await?;
    let sized = |(hardware, problem, method, timings): (String, String, String, i64)| {
        Ok((view(hardware, problem, method)?, unsigned("timing count", timings)?))
    };
    rows.into_iter().map(sized).collect()
}

struct ViewRow {
    hardware: String,
    solution: SolutionRow,
}

from_row!(ViewRow { hardware, ..solution });

/// The result of [`super::solutions::load`] for each view. Views without solutions are left out.
pub(super) async fn load(
    db: &mut Connection,
    views: &[&View],
) -> StoreResult<BTreeMap<View, StoredSolutions>> {
    let select = wanted(views)
        .push(
            " SELECT s.hardware, s.id, s.contributor, s.standing, s.problem, s.method, s.config_list, s.columns",
        )
        .push(SOLUTIONS)
        .push(" WHERE s.standing < 2");
    let rows: Vec<ViewRow> = db.fetch_all(select).await?;
    let mut loaded: BTreeMap<View, StoredSolutions> = BTreeMap::new();
    let mut lists: BTreeMap<String, BTreeSet<View>> = BTreeMap::new();
    for ViewRow { hardware, solution } in rows {
        let view = view(hardware, solution.problem.clone(), solution.method.clone())?;
        lists.entry(solution.config_list.clone()).or_default().insert(view.clone());
        let stored = loaded.entry(view).or_default();
        match solution.solution() {
            Ok(solution) => stored.solutions.push(solution),
            Err(damaged) => stored.damaged.push(damaged),
        }
    }
    for stored in loaded.values_mut() {
        stored.solutions.sort_unstable_by_key(|solution| solution.number);
    }
    add_problems(db, &mut loaded).await?;
    add_lists(db, &lists, &mut loaded).await?;
    Ok(loaded)
}

async fn add_problems(db: &mut Connection, loaded: &mut BTreeMap<View, StoredSolutions>) -> StoreResult<()> {
    let ids: BTreeSet<&str> = loaded.keys().map(|view| view.problem.as_str()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let select = Statement::new("SELECT id, fields FROM problems WHERE id IN (").push_list(ids);
    let rows: Vec<(String, String)> = db.fetch_all(select.push(")")).await?;
    let problems: BTreeMap<String, String> = rows.into_iter().collect();
    for (view, stored) in loaded {
        let Some(fields) = problems.get(view.problem.as_str()) else { continue };
        match problem_of(fields) {
            Ok(problem) => drop(stored.problems.insert(view.problem.clone(), problem)),
            Err(damaged) => stored.damaged.push(damaged),
        }
    }
    Ok(())
}

/// `lists` names the views that need each list.
async fn add_lists(
    db: &mut Connection,
    lists: &BTreeMap<String, BTreeSet<View>>,
    loaded: &mut BTreeMap<View, StoredSolutions>,
) -> StoreResult<()> {
    let digests: Vec<&str> = lists.keys().map(String::as_str).collect();
    for chunk in digests.chunks(super::inserts::ROWS_PER_STATEMENT) {
        let select = Statement::new("SELECT digest, packed FROM config_lists WHERE digest IN (");
        let select = select.push_list(chunk.iter().copied()).push(")");
        let rows: Vec<(String, Vec<u8>)> = db.fetch_all(select).await?;
        for (text, bytes) in rows {
            for view in lists.get(&text).into_iter().flatten() {
                let Some(stored) = loaded.get_mut(view) else { continue };
                match parse("config list digest", text.clone()) {
                    Ok(digest) => drop(stored.config_lists.insert(digest, bytes.clone())),
                    Err(damaged) => stored.damaged.push(damaged),
                }
            }
        }
    }
    Ok(())
}

fn view(hardware: String, problem: String, method: String) -> StoreResult<View> {
    let problem: ProblemId = parse("problem id", problem)?;
    Ok(View { hardware: parse("hardware slug", hardware)?, problem, method: parse("method", method)? })
}
