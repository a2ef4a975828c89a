use diode_api::{LinkedIdentity, Reason};
use diode_core::ids::{AccountId, AccountName, Digest};

use super::owners::{CredentialsRow, find, select};
use super::sessions;
use crate::store::accounts::Credentials;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::identities::{Identity, Linked, Unlinked};
use crate::store::sql::log::write_down;
use crate::store::statement::Statement;
use crate::store::types::Now;

pub(super) async fn owner(db: &mut Connection, identity: &Identity) -> StoreResult<Option<Credentials>> {
    let select = select()
        .push(" JOIN identities i ON i.account = a.id WHERE i.issuer = ")
        .push_bind(identity.issuer.as_str())
        .push(" AND i.subject = ")
        .push_bind(identity.subject.as_str());
    let row: Option<CredentialsRow> = db.fetch_optional(select).await?;
    Ok(row.map(CredentialsRow::credentials).transpose()?)
}

pub(super) async fn list(db: &mut Connection, account: &AccountId) -> StoreResult<Vec<LinkedIdentity>> {
    let select =
        Statement::new("SELECT issuer, created_at FROM identities WHERE account = $1 ORDER BY issuer");
    let rows: Vec<(String, String)> = db.fetch_all(select.bind(account.as_str())).await?;
    Ok(rows.into_iter().map(|(issuer, since)| LinkedIdentity { issuer, since }).collect())
}

async fn is_linked(db: &mut Connection, account: &AccountId, issuer: &str) -> StoreResult<bool> {
    let select = Statement::new("SELECT subject FROM identities WHERE account = $1 AND issuer = $2")
        .bind(account.as_str())
        .bind(issuer);
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    Ok(row.is_some())
}

pub(super) async fn link(
    db: &mut Connection,
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

/// Links an identity, if the session has not ended. A reset of the password changes the account's row first and
/// then ends its sessions. So either the link is made first and the reset removes it, or no link is made.
pub(super) async fn link_in_session(
    db: &mut Connection,
    account: &AccountId,
    identity: &Identity,
    session: &Digest,
    now: Now,
) -> StoreResult<Linked> {
    let lock = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
    let _locked: Option<(String,)> = db.fetch_optional(lock.push(db.change_row())).await?;
    match sessions::end_of(db, session).await? {
        None => Ok(Linked::SignedOut),
        Some(_) => link(db, account, identity, now).await,
    }
}

pub(super) async fn unlink(db: &mut Connection, account: &AccountId, issuer: &str) -> StoreResult<Unlinked> {
    if !is_linked(db, account, issuer).await? {
        return Ok(Unlinked::NotLinked);
    }
    let password = Statement::new("SELECT password FROM accounts WHERE id = $1").bind(account.as_str());
    let row: Option<(Option<String>,)> = db.fetch_optional(password.push(db.change_row())).await?;
    if !matches!(row, Some((Some(_),))) {
        return Ok(Unlinked::IsLast);
    }
    let delete = Statement::new("DELETE FROM identities WHERE account = $1 AND issuer = $2");
    db.execute(delete.bind(account.as_str()).bind(issuer)).await?;
    Ok(Unlinked::Done)
}

/// Removes all identities of an account. Returns their issuers.
pub(super) async fn take_all(db: &mut Connection, account: &AccountId) -> StoreResult<Vec<String>> {
    let issuers = list(db, account).await?.into_iter().map(|linked| linked.issuer).collect();
    db.execute(Statement::new("DELETE FROM identities WHERE account = $1").bind(account.as_str())).await?;
    Ok(issuers)
}

/// Removes an identity for an administrator, and writes it to the log.
pub(super) async fn take(
    db: &mut Connection,
    name: &AccountName,
    issuer: &str,
    why: &Reason,
    who: &str,
    now: Now,
) -> StoreResult<bool> {
    let Some(owner) = find(db, name).await? else { return Ok(false) };
    // Locks the account. If an identity is linked at the same moment, either the link comes first and is
    // removed here, or it is refused because its session has ended.
    let lock = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(owner.account.id.as_str());
    let _locked: Option<(String,)> = db.fetch_optional(lock.push(db.change_row())).await?;
    // The issuer is compared here and not in SQL, because the given text may have any characters.
    if list(db, &owner.account.id).await?.iter().all(|linked| linked.issuer != issuer) {
        return Ok(false);
    }
    let delete = Statement::new("DELETE FROM identities WHERE account = $1 AND issuer = $2");
    db.execute(delete.bind(owner.account.id.as_str()).bind(issuer)).await?;
    // Somebody may have signed in with this identity.
    sessions::end_all(db, &owner.account.id, None).await?;
    write_down(db, &taken(name, issuer), why, who, now).await?;
    Ok(true)
}

/// The entry in the log about an identity that was removed.
pub(super) fn taken(account: &AccountName, issuer: &str) -> String {
    format!("unlink {account} from {issuer}")
}
