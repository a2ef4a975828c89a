use diode_api::{Account, Agreement};
use diode_core::ids::{AccountId, AccountName, Digest};

use super::row::{AccountRow, COLUMNS};
use super::{links, sessions};
use crate::solutions::Damaged;
use crate::store::accounts::{Created, Credentials, LinkFor, NewAccount};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::parse;
use crate::store::from_row::from_row;
use crate::store::statement::Statement;
use crate::store::types::Now;

pub(super) struct CredentialsRow {
    account: AccountRow,
    password: Option<String>,
    disabled_at: Option<String>,
}

from_row!(CredentialsRow { password, disabled_at, ..account });

impl CredentialsRow {
    pub(super) fn credentials(self) -> Result<Credentials, Damaged> {
        let disabled = self.disabled_at.is_some();
        Ok(Credentials { account: self.account.account()?, password: self.password, disabled })
    }
}

/// The caller must commit only if this returns [`Created::Done`].
pub(super) async fn create(
    db: &mut Connection,
    account: &NewAccount,
    link: Option<&Digest>,
    now: Now,
) -> StoreResult<Created> {
    let admin = match link {
        None => account.admin,
        Some(secret) => match links::take(db, secret, now).await? {
            Some(LinkFor::Account) => account.admin,
            Some(LinkFor::FirstAccount) if none(db).await? => true,
            _ => return Ok(Created::NoLink),
        },
    };
    let insert = Statement::new(
        "INSERT INTO accounts (id, name, password, admin, created_at) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT DO NOTHING",
    )
    .bind(account.id.as_str())
    .bind(account.name.as_str())
    .bind(account.password.as_deref())
    .bind(i64::from(admin))
    .bind(now.rfc3339());
    if db.execute(insert).await? == 0 {
        return Ok(Created::NameTaken);
    }
    if let Some(version) = account.terms {
        agree(db, &account.id, version, now).await?;
    }
    Ok(Created::Done(Account {
        id: account.id.clone(),
        name: account.name.clone(),
        admin,
        created_at: now.rfc3339(),
        terms: account.terms.map(|version| Agreement { version, agreed_at: now.rfc3339() }),
    }))
}

pub(super) async fn agree(db: &mut Connection, account: &AccountId, terms: u32, now: Now) -> StoreResult<()> {
    let insert = Statement::new(
        "INSERT INTO agreements (account, terms, agreed_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    );
    db.execute(insert.bind(account.as_str()).bind(i64::from(terms)).bind(now.rfc3339())).await?;
    Ok(())
}

pub(super) async fn find(db: &mut Connection, name: &AccountName) -> StoreResult<Option<Credentials>> {
    let select = select().push(" WHERE a.name = ").push_bind(name.as_str());
    let row: Option<CredentialsRow> = db.fetch_optional(select).await?;
    Ok(row.map(CredentialsRow::credentials).transpose()?)
}

pub(super) async fn get(db: &mut Connection, id: &AccountId) -> StoreResult<Option<Account>> {
    let select = Statement::new("SELECT ").push(COLUMNS).push(" FROM accounts a WHERE a.id = ");
    let row: Option<AccountRow> = db.fetch_optional(select.push_bind(id.as_str())).await?;
    Ok(row.map(AccountRow::account).transpose()?)
}

pub(super) async fn list(db: &mut Connection) -> StoreResult<Vec<Credentials>> {
    let rows: Vec<CredentialsRow> = db.fetch_all(select().push(" ORDER BY a.name")).await?;
    Ok(rows.into_iter().map(CredentialsRow::credentials).collect::<Result<_, _>>()?)
}

pub(super) fn select() -> Statement {
    Statement::new("SELECT ").push(COLUMNS).push(", a.password, a.disabled_at FROM accounts a")
}

/// The name of an account, which nobody can change or delete until the transaction ends.
pub(super) async fn locked(db: &mut Connection, account: &AccountId) -> StoreResult<Option<AccountName>> {
    let select = Statement::new("SELECT name FROM accounts WHERE id = $1").bind(account.as_str());
    let row: Option<(String,)> = db.fetch_optional(select.push(db.change_row())).await?;
    Ok(row.map(|(name,)| parse("account name", name)).transpose()?)
}

pub(super) async fn none(db: &mut Connection) -> StoreResult<bool> {
    let some: Option<(String,)> =
        db.fetch_optional(Statement::new("SELECT id FROM accounts LIMIT 1")).await?;
    Ok(some.is_none())
}

pub(super) async fn set_password(
    db: &mut Connection,
    account: &AccountId,
    hash: &str,
    kept: Option<&Digest>,
) -> StoreResult<()> {
    let update = Statement::new("UPDATE accounts SET password = $1 WHERE id = $2");
    db.execute(update.bind(hash).bind(account.as_str())).await?;
    sessions::end_all(db, account, kept).await
}

pub(super) async fn set_disabled(
    db: &mut Connection,
    account: &AccountId,
    disabled: bool,
    now: Now,
) -> StoreResult<()> {
    let update = Statement::new("UPDATE accounts SET disabled_at = $1 WHERE id = $2")
        .bind(disabled.then(|| now.rfc3339()))
        .bind(account.as_str());
    db.execute(update).await?;
    sessions::end_all(db, account, None).await
}
