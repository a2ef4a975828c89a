use diode_api::{ContributionState, ModelSummary};
use diode_core::ids::{JobId, ModelId};

use crate::store::connection::Connection;
use crate::store::contributions::ContributionFilter;
use crate::store::error::StoreResult;
use crate::store::sql::models::{ModelRow, columns};
use crate::store::statement::Statement;
use crate::store::upkeep::CheckedRows;

/// Contributed models. Accepted models also have the columns of the server's own list.
fn select() -> Statement {
    columns().push(
        " FROM contributed_models c LEFT JOIN models m ON m.id = c.id LEFT JOIN accounts a ON a.id = c.account",
    )
}

pub(super) async fn find(db: &mut Connection, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
    one(db, select().push(" WHERE c.id = ").push_bind(id.as_str())).await
}

pub(super) async fn waiting_for(db: &mut Connection, job: &JobId) -> StoreResult<Option<ModelSummary>> {
    let waiting = ContributionState::Waiting.as_str();
    let select = select().push(" WHERE c.job = ").push_bind(job.as_str());
    one(db, select.push(" AND c.state = ").push_bind(waiting)).await
}

async fn one(db: &mut Connection, select: Statement) -> StoreResult<Option<ModelSummary>> {
    let row: Option<ModelRow> = db.fetch_optional(select).await?;
    Ok(row.map(ModelRow::model).transpose()?)
}

pub(super) async fn list(
    db: &mut Connection,
    filter: &ContributionFilter,
    limit: u32,
) -> StoreResult<Vec<ModelSummary>> {
    let mut select = select().push(" WHERE 1 = 1");
    if let Some(account) = &filter.account {
        select = select.push(" AND c.account = ").push_bind(account.as_str());
    }
    if let Some(state) = filter.state {
        select = select.push(" AND c.state = ").push_bind(state.as_str());
    }
    let select = select.push(" ORDER BY c.position DESC LIMIT ").push_bind(i64::from(limit));
    let rows: Vec<ModelRow> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(ModelRow::model).collect::<Result<_, _>>()?)
}

/// Reads every contributed model.
pub(in crate::store::sql) async fn check(db: &mut Connection, checked: &mut CheckedRows) -> StoreResult<()> {
    let ids: Vec<(String,)> =
        db.fetch_all(Statement::new("SELECT id FROM contributed_models ORDER BY position")).await?;
    let rows: Vec<ModelRow> = db.fetch_all(select().push(" ORDER BY c.position")).await?;
    for ((id,), row) in ids.iter().zip(rows) {
        checked.note("contributed model", id, row.model().map(drop));
    }
    Ok(())
}

/// The id and the summary of contributed models that are not among the server's models.
pub(in crate::store::sql) async fn unaccepted_files(
    db: &mut Connection,
) -> StoreResult<Vec<(String, String)>> {
    let select = "SELECT id, summary FROM contributed_models WHERE id NOT IN (SELECT id FROM models)";
    db.fetch_all(Statement::new(select)).await
}
