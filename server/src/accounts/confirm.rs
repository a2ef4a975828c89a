use std::time::Duration;

use diode_api::Password;

use super::cookie::SESSION;
use super::sign_in::check;
use super::{Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::Now;

/// How long after a sign-in the owner counts as present, if the account has no password to ask for.
const FRESH: Duration = Duration::from_secs(10 * 60);

/// Checks that the owner asks, before something that cannot be undone. An open session is not enough, since
/// somebody else may sit at the open browser. The check takes the password or, for an account without one, a
/// recent sign-in.
pub(super) async fn confirm(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    password: Option<Password>,
) -> ApiResult<()> {
    let account = &caller.account;
    let credentials = app.backend.store.credentials(&account.name).await?;
    if credentials.is_some_and(|found| found.password.is_some()) {
        let password =
            password.ok_or_else(|| ApiFault::invalid("password: got none, expected that of the account"))?;
        check(app, peer, &account.name, password).await?;
        return Ok(());
    }
    let began = app.backend.store.session_end(&caller.session).await?;
    let began = began.map(|end| end - SESSION.lasts.as_millis() as i64);
    if began.is_some_and(|began| Now::read().millis() - began < FRESH.as_millis() as i64) {
        return Ok(());
    }
    Err(ApiFault::forbidden(
        "you signed in more than ten minutes ago, and your account has no password to ask for; \
         sign out, sign in, and try again",
    ))
}
