use diode_core::ids::{AccountId, Digest};

use crate::solutions::Damaged;
use crate::store::accounts::LinkFor;
use crate::store::error::StoreResult;
use crate::store::sql::connection::Connection;
use crate::store::sql::fields::parse;
use crate::store::sql::statement::Statement;
use crate::store::types::Now;

const FIRST: &str = "first account";
const ACCOUNT: &str = "account";
const PASSWORD: &str = "password";

pub(super) async fn add(
    db: &mut impl Connection,
    secret: &Digest,
    link: &LinkFor,
    now: Now,
    expires: i64,
) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM links WHERE expires <= $1").bind(now.millis())).await?;
    let (kind, account) = match link {
        LinkFor::FirstAccount => (FIRST, None),
        LinkFor::Account => (ACCOUNT, None),
        LinkFor::Password(account) => (PASSWORD, Some(account.as_str())),
    };
    let insert = Statement::new("INSERT INTO links (secret, kind, account, expires) VALUES ($1, $2, $3, $4)")
        .bind(secret.as_str())
        .bind(kind)
        .bind(account)
        .bind(expires);
    db.execute(insert).await?;
    Ok(())
}

pub(super) async fn find(
    db: &mut impl Connection,
    secret: &Digest,
    now: Now,
) -> StoreResult<Option<LinkFor>> {
    let select = Statement::new("SELECT kind, account FROM links WHERE secret = $1 AND expires > $2")
        .bind(secret.as_str())
        .bind(now.millis());
    let row: Option<(String, Option<String>)> = db.fetch_optional(select).await?;
    Ok(row.map(link).transpose()?)
}

/// Removes a link, so that of two that use it at once only one gets it.
pub(super) async fn take(
    db: &mut impl Connection,
    secret: &Digest,
    now: Now,
) -> StoreResult<Option<LinkFor>> {
    // Each start makes a link for the first account as long as there is none. One statement removes them
    // all, so that two of them used at once do not wait for each other for ever.
    let delete = Statement::new(
        "DELETE FROM links WHERE kind = $1 AND EXISTS (SELECT 1 FROM links mine WHERE mine.secret = $2 \
         AND mine.kind = $1 AND mine.expires > $3) RETURNING secret",
    )
    .bind(FIRST)
    .bind(secret.as_str())
    .bind(now.millis());
    let first: Vec<(String,)> = db.fetch_all(delete).await?;
    if first.iter().any(|(taken,)| taken == secret.as_str()) {
        return Ok(Some(LinkFor::FirstAccount));
    }
    let delete =
        Statement::new("DELETE FROM links WHERE secret = $1 AND expires > $2 RETURNING kind, account")
            .bind(secret.as_str())
            .bind(now.millis());
    let row: Option<(String, Option<String>)> = db.fetch_optional(delete).await?;
    Ok(row.map(link).transpose()?)
}

pub(super) async fn forget_passwords(db: &mut impl Connection, account: &AccountId) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM links WHERE account = $1").bind(account.as_str())).await?;
    Ok(())
}

fn link((kind, account): (String, Option<String>)) -> Result<LinkFor, Damaged> {
    match (kind.as_str(), account) {
        (FIRST, None) => Ok(LinkFor::FirstAccount),
        (ACCOUNT, None) => Ok(LinkFor::Account),
        (PASSWORD, Some(account)) => Ok(LinkFor::Password(parse("account id", account)?)),
        (kind, account) => Err(Damaged::new("link", format_args!("`{kind}` with account {account:?}"))),
    }
}
