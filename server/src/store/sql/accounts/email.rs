use diode_core::ids::{AccountId, AccountName, Digest};

use super::links;
use super::owners::{CredentialsRow, select};
use crate::mail::EmailAddress;
use crate::store::accounts::{Credentials, LinkFor, MAX_ACCOUNTS_OF_ADDRESS};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{optional, parse};
use crate::store::mails::MailKind;
use crate::store::sql::log::note;
use crate::store::sql::mails;
use crate::store::statement::Statement;
use crate::store::types::Now;

/// The reason that the log states.
const WHY: &str = "its owner asked for it";

pub(super) async fn owners(db: &mut Connection, email: &EmailAddress) -> StoreResult<Vec<Credentials>> {
    // People write their addresses in capitals or not. Mail providers do not distinguish them.
    let select = select()
        .push(" WHERE LOWER(a.email) = ")
        .push_bind(email.as_str().to_ascii_lowercase())
        .push(" ORDER BY a.name LIMIT ")
        .push_bind(i64::from(MAX_ACCOUNTS_OF_ADDRESS));
    let rows: Vec<CredentialsRow> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(CredentialsRow::credentials).collect::<Result<_, _>>()?)
}

/// The name and the address of an account, which nobody can change until the transaction ends.
pub(super) async fn locked(
    db: &mut Connection,
    account: &AccountId,
) -> StoreResult<Option<(AccountName, Option<EmailAddress>)>> {
    let select = Statement::new("SELECT name, email FROM accounts WHERE id = $1").bind(account.as_str());
    let row: Option<(String, Option<String>)> = db.fetch_optional(select.push(db.change_row())).await?;
    let Some((name, email)) = row else { return Ok(None) };
    Ok(Some((parse("account name", name)?, optional("e-mail address", email)?)))
}

pub(super) async fn confirm(
    db: &mut Connection,
    link: &Digest,
    account: &AccountId,
    tells: bool,
    now: Now,
) -> StoreResult<Option<EmailAddress>> {
    // A link of another account stays usable.
    match links::find(db, link, now).await? {
        Some(LinkFor::Email(owner, _)) if owner == *account => {}
        _ => return Ok(None),
    }
    let Some((name, earlier)) = locked(db, account).await? else { return Ok(None) };
    let Some(LinkFor::Email(_, email)) = links::take(db, link, now).await? else { return Ok(None) };
    links::forget_mailed(db, account).await?;
    set(db, account, Some(&email)).await?;
    note(db, &format!("give {name} an e-mail address"), WHY, name.as_str(), now).await?;
    if let Some(earlier) = earlier.filter(|earlier| tells && *earlier != email) {
        mails::add(db, MailKind::AddressTakenOff, account, &earlier, now).await?;
    }
    Ok(Some(email))
}

pub(super) async fn remove(
    db: &mut Connection,
    account: &AccountId,
    tells: bool,
    now: Now,
) -> StoreResult<Option<EmailAddress>> {
    let Some((name, Some(email))) = locked(db, account).await? else { return Ok(None) };
    links::forget_mailed(db, account).await?;
    set(db, account, None).await?;
    note(db, &taken(&name), WHY, name.as_str(), now).await?;
    if tells {
        mails::add(db, MailKind::AddressTakenOff, account, &email, now).await?;
    }
    Ok(Some(email))
}

pub(super) async fn set(
    db: &mut Connection,
    account: &AccountId,
    email: Option<&EmailAddress>,
) -> StoreResult<()> {
    let update = Statement::new("UPDATE accounts SET email = $1 WHERE id = $2");
    db.execute(update.bind(email.map(EmailAddress::as_str)).bind(account.as_str())).await?;
    Ok(())
}

/// The entry in the log about an address that was removed.
pub(super) fn taken(account: &AccountName) -> String {
    format!("take the e-mail address off {account}")
}
