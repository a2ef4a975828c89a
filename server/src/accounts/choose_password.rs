use diode_api::Password;

use super::secret::digest_of;
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::{LinkFor, Now, PasswordReset};

/// Sets the password of the account that a link is for. It also ends the account's sessions and removes what
/// somebody else may have added to the account.
pub(crate) async fn choose_password(app: &App, link: &str, password: Password) -> ApiResult<PasswordReset> {
    let broken =
        || ApiFault::forbidden("this link does not work: it has been used or has expired; ask for another");
    let secret = digest_of(link);
    // The link is looked up before the password is hashed: a link that does not work must not cost a hash.
    let account = match app.backend.store.link(&secret, Now::read()).await? {
        Some(LinkFor::Password(account)) => account,
        _ => return Err(broken()),
    };
    let account = app.backend.store.account(&account).await?.ok_or_else(broken)?;
    password.check(&account.name)?;
    let hash = app.passwords.hash(password).await?;
    app.backend.store.set_password_by_link(&secret, &hash, Now::read()).await?.ok_or_else(broken)
}
