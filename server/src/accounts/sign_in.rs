//! Beginning and ending sessions.

use axum::http::{HeaderMap, HeaderValue};
use diode_api::{Account, Password, SignIn};
use diode_core::ids::{AccountName, Digest};

use super::Peer;
use super::cookie::SESSION;
use super::limits::{SIGN_IN, SIGN_INS_OF_ADDRESS};
use super::secret::{Secret, digest_of};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::limits::admit;
use crate::store::Now;

/// Begins a session. Returns the account, and the header that makes the browser keep the session.
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

/// The account with a name and a password. A wrong name gets the same answer as a wrong password, after the
/// same work.
pub(super) async fn check(
    app: &App,
    peer: &Peer,
    name: &AccountName,
    password: Password,
) -> ApiResult<Account> {
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

/// Begins a session with a new secret. So a secret that somebody else has put into the browser is of no use.
pub(super) async fn begin_session(
    app: &App,
    headers: &HeaderMap,
    account: &Account,
) -> ApiResult<HeaderValue> {
    if let Some(earlier) = SESSION.read(headers, app.policy()) {
        app.backend.store.end_session(&digest_of(&earlier)).await?;
    }
    let (secret, now) = (Secret::draw("").map_err(ApiFault::internal)?, Now::read());
    let digest = secret.digest();
    app.backend.store.add_session(&digest, &account.id, now, now.lease_end(SESSION.lasts)).await?;
    SESSION.keep(secret, app.policy())
}

/// Ends a session. Returns the header that makes the browser forget the session.
pub(crate) async fn sign_out(app: &App, session: &Digest) -> ApiResult<HeaderValue> {
    app.backend.store.end_session(session).await?;
    SESSION.forget(app.policy())
}
