use diode_core::ids::{AccountId, Digest};

use crate::solutions::Damaged;
use crate::store::accounts::LinkFor;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::optional;
use crate::store::statement::Statement;
use crate::store::types::Now;

const FIRST: &str = "first account";
const ACCOUNT: &str = "account";
const PASSWORD: &str = "password";

/// The kind and the account.
type LinkRow = (String, Option<String>);

pub(super) async fn add(
    db: &mut Connection,
    secret: &Digest,
    link: &LinkFor,
    now: Now,
    expires: i64,
) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM links WHERE expires <= $1").bind(now.millis())).await?;
    let (kind, account) = match link {
        LinkFor::FirstAccount => (FIRST, None),
        LinkFor::Account => (ACCOUNT, None),
        LinkFor::Password(account) => (PASSWORD, Some(account)),
    };
    let insert = Statement::new("INSERT INTO links (secret, kind, account, expires) VALUES ($1, $2, $3, $4)")
        .bind(secret.as_str())
        .bind(kind)
        .bind(account.map(AccountId::as_str))
        .bind(expires);
    db.execute(insert).await?;
    Ok(())
}

pub(super) async fn find(db: &mut Connection, secret: &Digest, now: Now) -> StoreResult<Option<LinkFor>> {
    let select = Statement::new("SELECT kind, account FROM links WHERE secret = $1 AND expires > $2")
        .bind(secret.as_str())
        .bind(now.millis());
    let row: Option<LinkRow> = db.fetch_optional(select).await?;
    Ok(row.map(link).transpose()?)
}

/// Removes a link, so that only one of two requests can use it.
pub(super) async fn take(db: &mut Connection, secret: &Digest, now: Now) -> StoreResult<Option<LinkFor>> {
    // As long as there is no account, each start of a server makes a link for the first account. One statement
    // removes all these links: if two requests used two of them and removed them one by one, they could
    // deadlock.
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
    let row: Option<LinkRow> = db.fetch_optional(delete).await?;
    Ok(row.map(link).transpose()?)
}

/// Removes all links of an account.
pub(super) async fn forget(db: &mut Connection, account: &AccountId) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM links WHERE account = $1").bind(account.as_str())).await?;
    Ok(())
}

fn link((kind, account): LinkRow) -> Result<LinkFor, Damaged> {
    let account: Option<AccountId> = optional("account id", account)?;
    match (kind.as_str(), account) {
        (FIRST, None) => Ok(LinkFor::FirstAccount),
        (ACCOUNT, None) => Ok(LinkFor::Account),
        (PASSWORD, Some(account)) => Ok(LinkFor::Password(account)),
        (kind, account) => Err(Damaged::new("link", format_args!("`{kind}` with account {account:?}"))),
    }
}
