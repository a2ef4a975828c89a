use diode_core::ids::Digest;

use super::{email, identities, links, owners};
use crate::store::accounts::{LinkFor, PasswordReset};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::sql::log::note;
use crate::store::types::Now;

/// The reasons that the log states for a new password.
const WHY: &str = "the password was chosen by a link";
const WHY_MAILED: &str = "the password was chosen by a link that was sent by mail";

pub(super) async fn set_password_by_link(
    db: &mut Connection,
    link: &Digest,
    hash: &str,
    now: Now,
) -> StoreResult<Option<PasswordReset>> {
    let (account, sent_to) = match links::take(db, link, now).await? {
        Some(LinkFor::Password(account)) => (account, None),
        Some(LinkFor::MailedPassword(account, email)) => (account, Some(email)),
        _ => return Ok(None),
    };
    let Some((name, address)) = email::locked(db, &account).await? else { return Ok(None) };
    // The account has changed its address since the link was sent.
    if sent_to.is_some() && sent_to != address {
        return Ok(None);
    }
    // Other links for the same password may have been sent by mistake, or stolen.
    links::forget_all(db, &account).await?;
    owners::set_password(db, &account, hash, None).await?;
    let why = if sent_to.is_some() { WHY_MAILED } else { WHY };
    let unlinked = identities::take_all(db, &account).await?;
    for issuer in &unlinked {
        note(db, &identities::taken(&name, issuer), why, name.as_str(), now).await?;
    }
    // Somebody with the old password may have added their own address.
    let without_email = sent_to.is_none() && address.is_some();
    if without_email {
        email::set(db, &account, None).await?;
        note(db, &email::taken(&name), why, name.as_str(), now).await?;
    }
    if sent_to.is_some() {
        note(db, &format!("choose the password of {name}"), why, name.as_str(), now).await?;
    }
    Ok(Some(PasswordReset { account: name, unlinked, without_email }))
}
