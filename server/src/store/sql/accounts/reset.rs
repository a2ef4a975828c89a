use diode_core::ids::{AccountName, Digest};

use super::{identities, links, owners};
use crate::store::accounts::{LinkFor, PasswordReset};
use crate::store::error::StoreResult;
use crate::store::sql::connection::Connection;
use crate::store::sql::fields::parse;
use crate::store::sql::log::note;
use crate::store::sql::statement::Statement;
use crate::store::types::Now;

/// Why, as the log says it.
const WHY: &str = "the password was chosen by a link";

pub(super) async fn set_password_by_link(
    db: &mut impl Connection,
    link: &Digest,
    hash: &str,
    now: Now,
) -> StoreResult<Option<PasswordReset>> {
    let Some(LinkFor::Password(account)) = links::take(db, link, now).await? else { return Ok(None) };
    // Other links for the same password were sent by mistake or stolen.
    links::forget_passwords(db, &account).await?;
    owners::set_password(db, &account, hash, None).await?;
    let select = Statement::new("SELECT name FROM accounts WHERE id = $1").bind(account.as_str());
    let (name,): (String,) = db.fetch_one(select).await?;
    let name: AccountName = parse("account name", name)?;
    let unlinked = identities::take_all(db, &account).await?;
    for issuer in &unlinked {
        note(db, &identities::taken(&name, issuer), WHY, name.as_str(), now).await?;
    }
    Ok(Some(PasswordReset { account: name, unlinked }))
}
