use axum::http::{HeaderMap, HeaderValue};
use diode_core::ids::AccountName;

use super::provider;
use crate::accounts::cookie::OPENID;
use crate::accounts::limits::SIGN_UPS_OF_ADDRESS;
use crate::accounts::secret::{Secret, digest_of, new_account_id};
use crate::accounts::sign_in::begin_session;
use crate::accounts::sign_up::{admits_strangers, no_account};
use crate::accounts::terms::check;
use crate::accounts::{Needed, Peer};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::limits::admit;
use crate::store::{Created, Identity, NewAccount, Now, OpenIdSignIn, OpenIdSignUp, SignedUp};

/// Stores that somebody must choose a name, if this server lets strangers make accounts. Returns the header
/// with the cookie by which the server recognises their browser.
pub(super) async fn begin(
    app: &App,
    identity: Identity,
    suggestion: Option<String>,
    sign_in: OpenIdSignIn,
) -> ApiResult<HeaderValue> {
    if sign_in.invitation.is_none() {
        let label = provider(app)?.label().to_owned();
        admits_strangers(app.policy()).map_err(|fault| {
            ApiFault::forbidden(format!(
                "{}. If you have an account here, sign in with its password and link it with {label} at /account",
                fault.message()
            ))
        })?;
    }
    // A new secret: the first was only for the way to the provider and back.
    let (secret, now) = (Secret::draw("").map_err(ApiFault::internal)?, Now::read());
    let sign_up = OpenIdSignUp { identity, suggestion, next: sign_in.next, invitation: sign_in.invitation };
    let expires = now.lease_end(OPENID.lasts);
    app.backend.store.add_openid_sign_up(&secret.digest(), &sign_up, now, expires).await?;
    OPENID.keep(secret, app.policy())
}

/// The person who must choose a name, found by the browser's cookie.
pub(crate) async fn who_signs_up(app: &App, headers: &HeaderMap) -> ApiResult<OpenIdSignUp> {
    let secret = OPENID.read(headers, app.policy()).ok_or_else(stale)?;
    app.backend.store.openid_sign_up(&digest_of(&secret), Now::read()).await?.ok_or_else(stale)
}

/// Makes the account and begins a session. Returns the headers that make the browser keep the session and
/// forget the sign-up.
pub(crate) async fn choose_name(
    app: &App,
    peer: &Peer,
    headers: &HeaderMap,
    name: AccountName,
    terms: Option<u32>,
) -> ApiResult<[HeaderValue; 2]> {
    if let Some(version) = terms {
        check(app.policy(), "terms", version, Needed::Current)?;
    }
    let secret = OPENID.read(headers, app.policy()).ok_or_else(stale)?;
    admit(app, &format!("sign-ups from {}", peer.0), &SIGN_UPS_OF_ADDRESS).await?;
    let id = new_account_id().map_err(ApiFault::internal)?;
    let account = NewAccount { id, name, password: None, admin: false, terms };
    let made = app.backend.store.create_account_by_openid(&digest_of(&secret), &account, Now::read()).await?;
    match made {
        SignedUp::Made(Created::Done(account)) => {
            let session = begin_session(app, headers, &account).await?;
            Ok([session, OPENID.forget(app.policy())?])
        }
        SignedUp::Made(refused) => Err(no_account(refused, &account.name)),
        SignedUp::Unknown => Err(stale()),
        SignedUp::IdentityTaken => {
            Err(ApiFault::conflict("you have an account here already; sign in again to get to it"))
        }
    }
}

fn stale() -> ApiFault {
    ApiFault::forbidden("this sign-up began in another browser, or more than ten minutes ago; sign in again")
}
