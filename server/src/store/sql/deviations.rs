//! The stored deviations of solutions from the solutions of other contributors.

use std::collections::BTreeMap;

use super::inserts::ROWS_PER_STATEMENT;
use super::view_solutions::{SOLUTIONS, wanted};
use crate::consensus::Deviation;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;
use crate::store::types::View;

/// Replaces the deviations of the solutions of some views. Returns the uploads whose deviations have changed.
/// These uploads must be judged anew ([`super::to_fence::mark`]).
pub(super) async fn replace(
    db: &mut Connection,
    views: &[&View],
    computed: &[Deviation],
) -> StoreResult<Vec<String>> {
    let stored = of_views(db, views).await?;
    let computed: BTreeMap<i64, f64> = computed.iter().map(|one| (one.number, one.log_ratio)).collect();
    let changed: Vec<(i64, f64)> = computed
        .iter()
        .filter(|(number, ratio)| stored.get(number) != Some(ratio))
        .map(|(number, ratio)| (*number, *ratio))
        .collect();
    let gone: Vec<i64> = stored.into_keys().filter(|number| !computed.contains_key(number)).collect();
    for chunk in changed.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|(number, ratio)| [(*number).into(), (*ratio).into()]);
        let insert = Statement::new("INSERT INTO deviations (solution, log_ratio)").push_rows(rows);
        let update = " ON CONFLICT (solution) DO UPDATE SET log_ratio = excluded.log_ratio";
        db.execute(insert.push(update)).await?;
    }
    for chunk in gone.chunks(ROWS_PER_STATEMENT) {
        let delete = Statement::new("DELETE FROM deviations WHERE solution IN (");
        db.execute(delete.push_list(chunk.iter().copied()).push(")")).await?;
    }
    let numbers: Vec<i64> = changed.into_iter().map(|(number, _)| number).chain(gone).collect();
    let mut uploads = Vec::new();
    for chunk in numbers.chunks(ROWS_PER_STATEMENT) {
        let select = Statement::new("SELECT DISTINCT upload FROM sent WHERE solution IN (");
        let rows: Vec<(String,)> = db.fetch_all(select.push_list(chunk.iter().copied()).push(")")).await?;
        uploads.extend(rows.into_iter().map(|(upload,)| upload));
    }
    Ok(uploads)
}

pub(super) async fn of_view(db: &mut Connection, view: &View) -> StoreResult<BTreeMap<i64, f64>> {
    of_views(db, &[view]).await
}

async fn of_views(db: &mut Connection, views: &[&View]) -> StoreResult<BTreeMap<i64, f64>> {
    let mut found = BTreeMap::new();
    for chunk in views.chunks(ROWS_PER_STATEMENT) {
        // Each solution is looked up by itself. In a join, Postgres may read all deviations.
        let select = wanted(chunk)
            .push(" SELECT s.id, (SELECT d.log_ratio FROM deviations d WHERE d.solution = s.id)")
            .push(SOLUTIONS);
        let rows: Vec<(i64, Option<f64>)> = db.fetch_all(select).await?;
        found.extend(rows.into_iter().filter_map(|(solution, ratio)| Some((solution, ratio?))));
    }
    Ok(found)
}
