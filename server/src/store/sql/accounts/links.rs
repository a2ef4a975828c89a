use diode_core::ids::{AccountId, Digest};

use crate::mail::EmailAddress;
use crate::solutions::Damaged;
use crate::store::accounts::LinkFor;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::optional;
use crate::store::sql::mails;
use crate::store::statement::Statement;
use crate::store::types::Now;

const FIRST: &str = "first account";
const ACCOUNT: &str = "account";
const PASSWORD: &str = "password";
const MAILED_PASSWORD: &str = "mailed password";
const EMAIL: &str = "email";

/// The kind, the account and the address.
type LinkRow = (String, Option<String>, Option<String>);

pub(super) async fn add(
    db: &mut Connection,
    secret: &Digest,
    link: &LinkFor,
    now: Now,
    expires: i64,
) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM links WHERE expires <= $1").bind(now.millis())).await?;
    let (kind, account, email) = match link {
        LinkFor::FirstAccount => (FIRST, None, None),
        LinkFor::Account => (ACCOUNT, None, None),
        LinkFor::Password(account) => (PASSWORD, Some(account), None),
        LinkFor::MailedPassword(account, email) => (MAILED_PASSWORD, Some(account), Some(email)),
        LinkFor::Email(account, email) => (EMAIL, Some(account), Some(email)),
    };
    let insert = Statement::new(
        "INSERT INTO links (secret, kind, account, email, expires) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(secret.as_str())
    .bind(kind)
    .bind(account.map(AccountId::as_str))
    .bind(email.map(EmailAddress::as_str))
    .bind(expires);
    db.execute(insert).await?;
    Ok(())
}

pub(super) async fn find(db: &mut Connection, secret: &Digest, now: Now) -> StoreResult<Option<LinkFor>> {
    let select = Statement::new("SELECT kind, account, email FROM links WHERE secret = $1 AND expires > $2")
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
        Statement::new("DELETE FROM links WHERE secret = $1 AND expires > $2 RETURNING kind, account, email")
            .bind(secret.as_str())
            .bind(now.millis());
    let row: Option<LinkRow> = db.fetch_optional(delete).await?;
    Ok(row.map(link).transpose()?)
}

/// Removes all links of an account, including links for mails that still wait.
pub(super) async fn forget_all(db: &mut Connection, account: &AccountId) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM links WHERE account = $1").bind(account.as_str())).await?;
    mails::forget_links(db, account).await
}

/// Removes the links that were mailed or wait to be mailed.
pub(super) async fn forget_mailed(db: &mut Connection, account: &AccountId) -> StoreResult<()> {
    let delete = Statement::new("DELETE FROM links WHERE account = $1 AND email IS NOT NULL");
    db.execute(delete.bind(account.as_str())).await?;
    mails::forget_links(db, account).await
}

fn link((kind, account, email): LinkRow) -> Result<LinkFor, Damaged> {
    let account: Option<AccountId> = optional("account id", account)?;
    let email: Option<EmailAddress> = optional("e-mail address", email)?;
    match (kind.as_str(), account, email) {
        (FIRST, None, None) => Ok(LinkFor::FirstAccount),
        (ACCOUNT, None, None) => Ok(LinkFor::Account),
        (PASSWORD, Some(account), None) => Ok(LinkFor::Password(account)),
        (MAILED_PASSWORD, Some(account), Some(email)) => Ok(LinkFor::MailedPassword(account, email)),
        (EMAIL, Some(account), Some(email)) => Ok(LinkFor::Email(account, email)),
        (kind, account, _) => Err(Damaged::new("link", format_args!("`{kind}` with account {account:?}"))),
    }
}
