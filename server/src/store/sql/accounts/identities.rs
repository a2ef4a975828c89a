use diode_core::ids::AccountId;

use super::owners::CredentialsRow;
use super::row::COLUMNS;
use crate::store::accounts::Credentials;
use crate::store::error::StoreResult;
use crate::store::identities::{Identity, Linked, Unlinked};
use crate::store::sql::connection::Connection;
use crate::store::sql::statement::Statement;
use crate::store::types::Now;

pub(super) async fn owner(db: &mut impl Connection, identity: &Identity) -> StoreResult<Option<Credentials>> {
    let select = Statement::new("SELECT ")
        .push(COLUMNS)
        .push(", a.password, a.disabled_at FROM identities i JOIN accounts a ON a.id = i.account")
        .push(" WHERE i.issuer = ")
        .push_bind(identity.issuer.as_str())
        .push(" AND i.subject = ")
        .push_bind(identity.subject.as_str());
    let row: Option<CredentialsRow> = db.fetch_optional(select).await?;
    Ok(row.map(CredentialsRow::credentials).transpose()?)
}

pub(super) async fn is_linked(
    db: &mut impl Connection,
    account: &AccountId,
    issuer: &str,
) -> StoreResult<bool> {
    let select = Statement::new("SELECT subject FROM identities WHERE account = $1 AND issuer = $2")
        .bind(account.as_str())
        .bind(issuer);
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    Ok(row.is_some())
}

pub(super) async fn link(
    db: &mut impl Connection,
    account: &AccountId,
    identity: &Identity,
    now: Now,
) -> StoreResult<Linked> {
    let insert = Statement::new(
        "INSERT INTO identities (issuer, subject, account, created_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT DO NOTHING",
    )
    .bind(identity.issuer.as_str())
    .bind(identity.subject.as_str())
    .bind(account.as_str())
    .bind(now.rfc3339());
    if db.execute(insert).await? == 1 {
        return Ok(Linked::Done);
    }
    Ok(if is_linked(db, account, &identity.issuer).await? { Linked::HasOne } else { Linked::Taken })
}

pub(super) async fn unlink<C: Connection>(
    db: &mut C,
    account: &AccountId,
    issuer: &str,
) -> StoreResult<Unlinked> {
    if !is_linked(db, account, issuer).await? {
        return Ok(Unlinked::NotLinked);
    }
    let password = Statement::new("SELECT password FROM accounts WHERE id = $1").bind(account.as_str());
    let row: Option<(Option<String>,)> = db.fetch_optional(password.push(C::LOCK_ROW)).await?;
    if !matches!(row, Some((Some(_),))) {
        return Ok(Unlinked::IsLast);
    }
    let delete = Statement::new("DELETE FROM identities WHERE account = $1 AND issuer = $2");
    db.execute(delete.bind(account.as_str()).bind(issuer)).await?;
    Ok(Unlinked::Done)
}
