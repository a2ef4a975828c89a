use crate::store::connection::{Connection, Exclusive};
use crate::store::contributions::{MAX_WAITING_MODELS, NewContribution, TakenModel};
use crate::store::error::StoreResult;
use crate::store::fields::json;
use crate::store::sql::{jobs, models};
use crate::store::statement::Statement;
use crate::store::types::{Now, Queued};

use super::read;

/// The caller must commit only if this returns [`TakenModel::New`].
pub(super) async fn add(db: &mut Connection, new: &NewContribution, now: Now) -> StoreResult<TakenModel> {
    // One transaction at a time. Otherwise two could together exceed the limit.
    db.turn(Exclusive::Queue).await?;
    let id = &new.model.id;
    let sender = Statement::new("SELECT account FROM contributed_models WHERE id = $1").bind(id.as_str());
    let sender: Option<(Option<String>,)> = db.fetch_optional(sender).await?;
    match (sender, read::find(db, id).await?) {
        (Some((Some(sender),)), Some(found)) if sender == new.account.as_str() => {
            return Ok(TakenModel::There(Box::new(found)));
        }
        (Some(_), _) => return Ok(TakenModel::OfAnother),
        (None, _) if models::find(db, id).await?.is_some() => return Ok(TakenModel::Known),
        (None, _) => {}
    }
    let count = Statement::new(
        "SELECT COUNT(*) FROM contributed_models WHERE account = $1 AND state IN ('waiting', 'evaluated')",
    );
    let (waiting,): (i64,) = db.fetch_one(count.bind(new.account.as_str())).await?;
    if waiting >= i64::from(MAX_WAITING_MODELS) {
        return Ok(TakenModel::TooMany);
    }
    match jobs::enqueue(db, &new.job, Some(&new.account), now).await? {
        Queued::Yes => {}
        refused => return Ok(TakenModel::NoJob(refused)),
    }
    let insert = Statement::new(
        "INSERT INTO contributed_models (id, account, hardware, state, sent_at, description, licence, \
         without_kept, summary, job, bytes) VALUES ($1, $2, $3, 'waiting', $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(id.as_str())
    .bind(new.account.as_str())
    .bind(new.model.hardware.as_str())
    .bind(now.rfc3339())
    .bind(new.description.as_str())
    .bind(new.licence.as_str())
    .bind(i64::from(new.without_kept))
    .bind(json("model summary", &new.model)?)
    .bind(new.job.id.as_str())
    .bind(new.model.bytes);
    db.execute(insert).await?;
    let added = read::find(db, id).await?.ok_or(sqlx::Error::RowNotFound)?;
    Ok(TakenModel::New(Box::new(added)))
}
