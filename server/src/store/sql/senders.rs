//! Who sent the same bytes as somebody before.

use diode_core::ids::{AccountId, UploadId};

use super::connection::Connection;
use super::fields::parse;
use super::statement::Statement;
use crate::store::error::StoreResult;

/// Notes that an account sent an upload that is stored already; `false` if it is not any more.
pub(super) async fn add<C: Connection>(
    db: &mut C,
    upload: &UploadId,
    account: &AccountId,
) -> StoreResult<bool> {
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

/// Gives the uploads of an account to others who sent the same bytes. Returns those uploads.
pub(super) async fn hand_over(db: &mut impl Connection, account: &AccountId) -> StoreResult<Vec<UploadId>> {
    let update = Statement::new(
        "UPDATE uploads SET account = (SELECT MIN(account) FROM senders WHERE upload = uploads.id) \
         WHERE account = $1 AND id IN (SELECT upload FROM senders) RETURNING id",
    );
    let rows: Vec<(String,)> = db.fetch_all(update.bind(account.as_str())).await?;
    let delete = "DELETE FROM senders WHERE EXISTS \
                  (SELECT 1 FROM uploads u WHERE u.id = senders.upload AND u.account = senders.account)";
    db.execute(Statement::new(delete)).await?;
    Ok(rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, _>>()?)
}
