//! Actions that an account's owner must confirm.

use axum::http::HeaderValue;
use diode_api::{DeleteAccount, NewPassword};

use super::confirm::confirm;
use super::cookie::SESSION;
use super::{Peer, SignedIn};
use crate::app::App;
use crate::http::ApiResult;

/// Replaces the password, or sets the first one. Ends all sessions except the one that asks. Tokens go on working:
/// they do not come from the password.
pub(crate) async fn change_password(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    request: NewPassword,
) -> ApiResult<()> {
    request.new.check(&caller.account.name)?;
    confirm(app, peer, caller, request.current).await?;
    let hash = app.passwords.hash(request.new).await?;
    app.backend.store.set_password(&caller.account.id, &hash, Some(&caller.session)).await?;
    Ok(())
}

/// Deletes an account for good. Returns the header that makes the browser forget the session.
pub(crate) async fn delete(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    request: DeleteAccount,
) -> ApiResult<HeaderValue> {
    confirm(app, peer, caller, request.password).await?;
    let files = app.backend.store.delete_account(&caller.account.id, request.uploads).await?;
    app.backend.forget(files).await?;
    SESSION.forget(app.policy())
}
