//! Signing in by an OpenID Connect provider, with the authorization code flow and PKCE.
//!
//! A browser gets a secret in a cookie. It goes to the provider with values that are derived from the secret
//! ([`Keys`]). The answer counts once, and only together with the cookie. An identity is the provider's
//! issuer and its name for somebody, never an e-mail address.

pub(super) mod pages;
mod provider;

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use diode_api::Password;
use diode_core::ids::{AccountId, AccountName, Digest};
use serde::Deserialize;

use crate::accounts::openid::provider::Vouched;
use crate::accounts::secrets::{Secret, digest_of, new_account_id};
use crate::accounts::sessions::{
    OPENID, SIGN_INS_OF_ADDRESS, SIGN_UPS_OF_ADDRESS, admits_strangers, begin_session, confirm, no_account,
};
use crate::accounts::terms::check;
use crate::accounts::{Needed, Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::limits::admit;
use crate::store::{
    Created, Identity, Linked, NewAccount, Now, PendingSignIn, PendingSignUp, SignedUp, Unlinked,
};

pub use crate::accounts::openid::provider::Provider;

/// The provider of this server.
fn provider(app: &App) -> ApiResult<Arc<Provider>> {
    app.provider.clone().ok_or_else(|| {
        ApiFault::not_found("this server has no OpenID Connect provider; sign in with a password at /sign-in")
    })
}

/// Why a browser is sent to the provider.
#[derive(Default)]
pub(crate) struct Wish {
    /// The page of this server that the browser goes to afterwards.
    pub(crate) next: Option<String>,
    /// The secret at the end of an invitation's link.
    pub(crate) invitation: Option<String>,
    /// Who wants to link an account; `None` to sign in.
    pub(crate) link: Option<SignedIn>,
}

/// Returns the provider's address for this browser, and the header with the cookie by which the server
/// recognises the browser.
pub(crate) async fn begin(app: &App, peer: &Peer, wish: Wish) -> ApiResult<(String, HeaderValue)> {
    let provider = provider(app)?;
    admit(app, &format!("sign-ins from {}", peer.0), &SIGN_INS_OF_ADDRESS).await?;
    let secret = Secret::draw("").map_err(ApiFault::internal)?;
    let digest = secret.digest();
    let cookie = OPENID.keep(secret.clone(), app.policy())?;
    let address = provider.address(Keys::of(&secret.into_text())).await?;
    let sign_in = PendingSignIn {
        next: wish.next,
        account: wish.link.map(|caller| caller.account.id),
        invitation: wish.invitation.map(|invitation| digest_of(&invitation)),
    };
    let now = Now::read();
    app.backend.store.add_openid_sign_in(&digest, &sign_in, now, now.lease_end(OPENID.lasts)).await?;
    Ok((address, cookie))
}

/// The parameters that a browser brings back from the provider. Providers add others, which are ignored.
#[derive(Deserialize)]
pub(crate) struct Provided {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
    /// The issuer that answers, after RFC 9207.
    iss: Option<String>,
}

/// The result of an answer.
pub(crate) enum Finished {
    /// A session has begun.
    SignedIn { cookie: HeaderValue, next: Option<String> },
    /// The account is linked.
    Linked,
    /// A name must be chosen for the new account.
    Unnamed { cookie: HeaderValue },
}

/// Takes the answer of the provider.
pub(crate) async fn finish(
    app: &App,
    headers: &HeaderMap,
    caller: Option<SignedIn>,
    answer: Provided,
) -> ApiResult<Finished> {
    let provider = provider(app)?;
    let stale = || {
        ApiFault::forbidden(
            "this sign-in began in another browser, more than ten minutes ago, or has been used; begin again",
        )
    };
    let secret = OPENID.read(headers, app.policy()).ok_or_else(stale)?;
    let keys = Keys::of(&secret);
    if answer.state.as_deref() != Some(keys.state.as_str()) {
        return Err(stale());
    }
    let sign_in = app.backend.store.take_openid_sign_in(&digest_of(&secret), Now::read()).await?;
    let sign_in = sign_in.ok_or_else(stale)?;
    let code = code(&provider, answer)?;
    let Vouched { identity, suggestion } = provider.vouched(code, keys).await?;
    if let Some(account) = sign_in.account {
        link(app, caller, &account, &identity).await?;
        return Ok(Finished::Linked);
    }
    match app.backend.store.owner_of(&identity).await? {
        Some(owner) if owner.disabled => {
            Err(ApiFault::forbidden("this account is disabled; ask whoever runs this server"))
        }
        Some(owner) => {
            let cookie = begin_session(app, headers, &owner.account).await?;
            Ok(Finished::SignedIn { cookie, next: sign_in.next })
        }
        None => {
            let cookie = begin_sign_up(app, identity, suggestion, sign_in).await?;
            Ok(Finished::Unnamed { cookie })
        }
    }
}

/// The code in an answer. Fails if the answer is a refusal or comes from another provider.
fn code(provider: &Provider, answer: Provided) -> ApiResult<String> {
    let label = provider.label();
    if answer.iss.is_some_and(|iss| iss != provider.issuer()) {
        return Err(ApiFault::forbidden(format!("another provider than {label} answered; begin again")));
    }
    match (answer.error.as_deref(), answer.code) {
        (None, Some(code)) => Ok(code),
        (Some("access_denied"), _) => Err(ApiFault::forbidden(format!(
            "{label} was not allowed to say who you are, so nobody was signed in"
        ))),
        (Some(error), _) => {
            // Shortened and filtered: the provider sends this word, but by way of the browser, which may
            // change it.
            let error: String =
                error.chars().filter(|c| c.is_ascii_lowercase() || *c == '_').take(40).collect();
            Err(ApiFault::forbidden(format!("{label} signed nobody in: it says `{error}`; begin again")))
        }
        (None, None) => Err(ApiFault::invalid("code: got none, expected what the provider's answer holds")),
    }
}

/// Links the account that asked for it, if the same account is still signed in.
async fn link(
    app: &App,
    caller: Option<SignedIn>,
    account: &AccountId,
    identity: &Identity,
) -> ApiResult<()> {
    let stale = || {
        ApiFault::forbidden(
            "another account is signed in than the one that was to be linked, so nothing was; begin again",
        )
    };
    let caller = caller.filter(|caller| caller.account.id == *account).ok_or_else(stale)?;
    let label = provider(app)?.label().to_owned();
    match app.backend.store.link_identity(account, identity, &caller.session, Now::read()).await? {
        Linked::Done => Ok(()),
        Linked::SignedOut => Err(stale()),
        Linked::Taken => Err(ApiFault::taken(format!(
            "this account of {label} signs in to another account here; unlink it there first"
        ))),
        Linked::HasOne => Err(ApiFault::conflict(format!(
            "your account is linked with {label} already; unlink it first to link another"
        ))),
    }
}

/// Unlinks an account from the provider.
pub(crate) async fn unlink(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    password: Option<Password>,
) -> ApiResult<()> {
    let provider = provider(app)?;
    confirm(app, peer, caller, password).await?;
    match app.backend.store.unlink_identity(&caller.account.id, provider.issuer()).await? {
        Unlinked::Done => Ok(()),
        Unlinked::NotLinked => {
            Err(ApiFault::conflict(format!("your account is not linked with {}", provider.label())))
        }
        Unlinked::IsLast => Err(ApiFault::conflict(format!(
            "{} is the only way into your account; choose a password first, then unlink it",
            provider.label()
        ))),
    }
}

/// Stores that somebody must choose a name, if this server lets strangers make accounts. Returns the header
/// with the cookie by which the server recognises their browser.
async fn begin_sign_up(
    app: &App,
    identity: Identity,
    suggestion: Option<String>,
    sign_in: PendingSignIn,
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
    let sign_up = PendingSignUp { identity, suggestion, next: sign_in.next, invitation: sign_in.invitation };
    let expires = now.lease_end(OPENID.lasts);
    app.backend.store.add_openid_sign_up(&secret.digest(), &sign_up, now, expires).await?;
    OPENID.keep(secret, app.policy())
}

/// The person who must choose a name, found by the browser's cookie.
pub(crate) async fn who_signs_up(app: &App, headers: &HeaderMap) -> ApiResult<PendingSignUp> {
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

/// The secrets that the provider gets on behalf of one browser. All are derived from the secret in the
/// browser's cookie, so the database holds none of them.
struct Keys {
    /// Shows that an answer belongs to this browser.
    state: Digest,
    /// Shows that an ID token was made for this sign-in.
    nonce: Digest,
    /// Shows that whoever redeems a code also asked for it (PKCE).
    verifier: Digest,
}

impl Keys {
    fn of(secret: &str) -> Self {
        let derive = |purpose: &str| digest_of(&format!("openid {purpose} {secret}"));
        Self { state: derive("state"), nonce: derive("nonce"), verifier: derive("verifier") }
    }
}

#[cfg(test)]
mod keys_tests {
    use super::*;

    #[test]
    fn keys_differ_from_each_other_and_from_what_is_stored() {
        let Keys { state, nonce, verifier } = Keys::of("secret");
        let all = [state, nonce, verifier, digest_of("secret"), Keys::of("other").state];
        for (i, one) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|other| other != one));
        }
    }
}
