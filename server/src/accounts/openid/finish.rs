use axum::http::{HeaderMap, HeaderValue};
use serde::Deserialize;

use super::keys::Keys;
use super::provider::{Provider, Vouched};
use super::{link, provider, sign_up};
use crate::accounts::SignedIn;
use crate::accounts::cookie::OPENID;
use crate::accounts::secret::digest_of;
use crate::accounts::sign_in::begin_session;
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::Now;

/// The parameters that a browser brings back from the provider. Providers add others, which are ignored.
#[derive(Deserialize)]
pub(crate) struct Answer {
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
    answer: Answer,
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
        link::link(app, caller, &account, &identity).await?;
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
            let cookie = sign_up::begin(app, identity, suggestion, sign_in).await?;
            Ok(Finished::Unnamed { cookie })
        }
    }
}

/// The code in an answer. Fails if the answer is a refusal or comes from another provider.
fn code(provider: &Provider, answer: Answer) -> ApiResult<String> {
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
