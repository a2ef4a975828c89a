//! Beginning and ending sessions, and what only the password allows.

use axum::http::{HeaderMap, HeaderValue};
use diode_core::api::{Account, DeleteAccount, NewPassword, Password, SignIn};
use diode_core::ids::{AccountName, Digest};

use super::limits::{SIGN_IN, SIGN_INS_OF_ADDRESS};
use super::secret::{Secret, digest_of};
use super::{Peer, SignedIn, cookie};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::limits::admit;
use crate::store::Now;

/// Begins a session. Returns whose, and the header that makes the browser keep it.
pub(crate) async fn sign_in(
    app: &App,
    peer: &Peer,
    headers: &HeaderMap,
    request: SignIn,
) -> ApiResult<(Account, HeaderValue)> {
    let account = check(app, peer, &request.name, request.password).await?;
    let cookie = begin_session(app, headers, &account).await?;
    Ok((account, cookie))
}

/// The account of a name and its password. A wrong name is answered as a wrong password is, after the
/// same work.
async fn check(app: &App, peer: &Peer, name: &AccountName, password: Password) -> ApiResult<Account> {
    let subject = format!("sign-in of {name} from {}", peer.0);
    admit(app, &format!("sign-ins from {}", peer.0), &SIGN_INS_OF_ADDRESS).await?;
    admit(app, &subject, &SIGN_IN).await?;
    let found = app.backend.store.credentials(name).await?;
    let hash = found.as_ref().and_then(|found| found.password.clone());
    let fits = app.passwords.fits(password, hash).await?;
    let Some(found) = found.filter(|_| fits) else {
        return Err(ApiFault::unauthorized("the name or the password is wrong"));
    };
    app.backend.store.forget_attempts(&subject).await?;
    if found.disabled {
        return Err(ApiFault::forbidden("this account is disabled; ask whoever runs this server"));
    }
    Ok(found.account)
}

/// A new secret each time: one that somebody else put into the browser is of no use to them.
pub(super) async fn begin_session(
    app: &App,
    headers: &HeaderMap,
    account: &Account,
) -> ApiResult<HeaderValue> {
    if let Some(earlier) = cookie::read(headers, app.policy()) {
        app.backend.store.end_session(&digest_of(&earlier)).await?;
    }
    let (secret, now) = (Secret::draw("").map_err(ApiFault::internal)?, Now::read());
    let digest = secret.digest();
    app.backend.store.add_session(&digest, &account.id, now, now.lease_end(cookie::LASTS)).await?;
    cookie::keep(secret, app.policy())
}

/// Ends a session. Returns the header that makes the browser forget it.
pub(crate) async fn sign_out(app: &App, session: &Digest) -> ApiResult<HeaderValue> {
    app.backend.store.end_session(session).await?;
    cookie::forget(app.policy())
}

/// Replaces the password; all sessions but this one end. Tokens go on working: they were not made of it.
pub(crate) async fn change_password(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    request: NewPassword,
) -> ApiResult<()> {
    request.new.check(&caller.account.name)?;
    check(app, peer, &caller.account.name, request.current).await?;
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
    check(app, peer, &caller.account.name, request.password).await?;
    let files = app.backend.store.delete_account(&caller.account.id, request.uploads).await?;
    app.backend.forget_uploads(files).await?;
    cookie::forget(app.policy())
}
