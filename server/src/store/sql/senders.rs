//! Who sent the same bytes as somebody before.

use diode_core::ids::{AccountId, UploadId};

use super::connection::{Connection, Thing};
use super::fields::parse;
use super::inserts::ROWS_PER_STATEMENT;
use super::statement::Statement;
use crate::store::error::StoreResult;

/// Notes that an account sent an upload that is stored already; `false` if it is not any more.
pub(super) async fn add<C: Connection>(
    db: &mut C,
    upload: &UploadId,
    account: &AccountId,
) -> StoreResult<bool> {
    // Who deletes an account locks it before its uploads.
    db.keep(Thing::Account(account)).await?;
    let keep = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
    let _kept: Option<(String,)> = db.fetch_optional(keep.push(C::KEEP_ROW)).await?;
    let select = Statement::new("SELECT account FROM uploads WHERE id = $1").bind(upload.as_str());
    let row: Option<(Option<String>,)> = db.fetch_optional(select.push(C::LOCK_ROW)).await?;
    let Some((first,)) = row else { return Ok(false) };
    if first.as_deref() != Some(account.as_str()) {
        let insert =
            Statement::new("INSERT INTO senders (upload, account) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        db.execute(insert.bind(upload.as_str()).bind(account.as_str())).await?;
    }
    Ok(true)
}

/// Gives those of some uploads that others sent, too, to one of these. Returns those uploads.
pub(super) async fn hand_over(db: &mut impl Connection, uploads: &[UploadId]) -> StoreResult<Vec<UploadId>> {
    let mut rows: Vec<(String,)> = Vec::new();
    for chunk in uploads.chunks(ROWS_PER_STATEMENT) {
        let update = Statement::new(
            "UPDATE uploads SET account = (SELECT MIN(account) FROM senders WHERE upload = uploads.id) \
             WHERE id IN (SELECT upload FROM senders) AND id IN (",
        );
        let update = update.push_list(chunk.iter().map(UploadId::as_str)).push(") RETURNING id");
        rows.extend(db.fetch_all::<(String,)>(update).await?);
    }
    let delete = "DELETE FROM senders WHERE EXISTS \
                  (SELECT 1 FROM uploads u WHERE u.id = senders.upload AND u.account = senders.account)";
    db.execute(Statement::new(delete)).await?;
    Ok(rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, _>>()?)
}
