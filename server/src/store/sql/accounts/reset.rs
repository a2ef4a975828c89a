use diode_core::ids::Digest;

use super::{identities, links, owners};
use crate::store::accounts::{LinkFor, PasswordReset};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::sql::log::note;
use crate::store::types::Now;

/// The reason that the log states for a new password.
const WHY: &str = "the password was chosen by a link";

pub(super) async fn set_password_by_link(
    db: &mut Connection,
    link: &Digest,
    hash: &str,
    now: Now,
) -> StoreResult<Option<PasswordReset>> {
    let Some(LinkFor::Password(account)) = links::take(db, link, now).await? else { return Ok(None) };
    let Some(name) = owners::locked(db, &account).await? else { return Ok(None) };
    // Other links for the same password may have been sent by mistake, or stolen.
    links::forget(db, &account).await?;
    owners::set_password(db, &account, hash, None).await?;
    let unlinked = identities::take_all(db, &account).await?;
    for issuer in &unlinked {
        note(db, &identities::taken(&name, issuer), WHY, name.as_str(), now).await?;
    }
    Ok(Some(PasswordReset { account: name, unlinked }))
}
