use diode_api::Account;
use diode_core::ids::{AccountId, Digest};

use super::row::{AccountRow, COLUMNS};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;
use crate::store::types::Now;

pub(super) async fn add(
    db: &mut Connection,
    secret: &Digest,
    account: &AccountId,
    now: Now,
    expires: i64,
) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM sessions WHERE expires <= $1").bind(now.millis())).await?;
    let insert = Statement::new("INSERT INTO sessions (secret, account, expires) VALUES ($1, $2, $3)")
        .bind(secret.as_str())
        .bind(account.as_str())
        .bind(expires);
    db.execute(insert).await?;
    Ok(())
}

pub(super) async fn find(db: &mut Connection, secret: &Digest, now: Now) -> StoreResult<Option<Account>> {
    let select = Statement::new("SELECT ")
        .push(COLUMNS)
        .push(" FROM sessions s JOIN accounts a ON a.id = s.account WHERE s.secret = ")
        .push_bind(secret.as_str())
        .push(" AND a.disabled_at IS NULL AND s.expires > ")
        .push_bind(now.millis());
    let row: Option<AccountRow> = db.fetch_optional(select).await?;
    Ok(row.map(AccountRow::account).transpose()?)
}

pub(super) async fn end_of(db: &mut Connection, secret: &Digest) -> StoreResult<Option<i64>> {
    let select = Statement::new("SELECT expires FROM sessions WHERE secret = $1").bind(secret.as_str());
    let row: Option<(i64,)> = db.fetch_optional(select).await?;
    Ok(row.map(|(expires,)| expires))
}

pub(super) async fn end(db: &mut Connection, secret: &Digest) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM sessions WHERE secret = $1").bind(secret.as_str())).await?;
    Ok(())
}

pub(super) async fn end_all(
    db: &mut Connection,
    account: &AccountId,
    kept: Option<&Digest>,
) -> StoreResult<()> {
    let delete = Statement::new("DELETE FROM sessions WHERE account = $1 AND secret <> $2")
        .bind(account.as_str())
        .bind(kept.map_or("", Digest::as_str));
    db.execute(delete).await?;
    Ok(())
}
