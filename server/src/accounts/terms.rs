//! The terms of contributing: who has agreed to them, and which licence an upload has.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Redirect, Response};
use diode_api::{Account, Agree, DATA_LICENCE, Scope, TERMS_HEADER, TERMS_VERSION, Terms, UploadLicence};
use maud::{Markup, html};
use serde::Deserialize;

use crate::accounts::{Anonymous, By, Caller, Policy, SignedIn, pages as account};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::pages::OwnForm;
use crate::pages::page;
use crate::store::Now;

/// The text of version [`TERMS_VERSION`].
pub(crate) const TERMS_TEXT: &str = include_str!("../../../docs/terms.md");

/// The version that a contributor must have agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    /// The version in force, because the contribution begins now.
    Current,
    /// Any version, because the contribution began earlier.
    Any,
}

/// The licence of a contribution. A request may agree to the terms by a header. For an account, that agreement lasts.
pub(crate) async fn licence_of(
    app: &App,
    headers: &HeaderMap,
    account: Option<&Account>,
    needed: Needed,
) -> ApiResult<UploadLicence> {
    let agreed = account.and_then(|account| account.terms.as_ref()).map(|terms| terms.version);
    if let Some(version) = named(headers)? {
        check(app.policy(), TERMS_HEADER, version, needed)?;
        if let Some(account) = account
            && agreed < Some(version)
        {
            app.backend.store.agree(&account.id, version, Now::read()).await?;
        }
        return Ok(UploadLicence::agreed(version));
    }
    let asks = app.policy().asks_for_terms();
    match agreed {
        Some(version) if !asks || needed == Needed::Any || version >= TERMS_VERSION => {
            Ok(UploadLicence::agreed(version))
        }
        None if !asks => Ok(UploadLicence::stated()),
        _ => Err(not_agreed(app.policy())),
    }
}

/// Whether a contribution would be refused because nobody has agreed to the terms. A server that needs an account
/// asks for the account first.
pub(crate) fn is_asked(policy: &Policy, account: Option<&Account>) -> bool {
    let Some(account) = account else { return policy.anonymous == Anonymous::Uploads };
    policy.asks_for_terms() && account.terms.as_ref().is_none_or(|terms| terms.version < TERMS_VERSION)
}

/// Stores that the caller agrees to the terms in force. A token may do this if it may contribute.
pub(crate) async fn agree(app: &App, caller: &Caller, Agree { version }: Agree) -> ApiResult<()> {
    if let By::Token(token) = &caller.by
        && !token.scopes.iter().any(|scope| matches!(scope, Scope::Upload | Scope::Agent))
    {
        return Err(ApiFault::forbidden(
            "the token is for neither upload nor agent, so it cannot agree to the terms of contributing",
        ));
    }
    check(app.policy(), "version", version, Needed::Current)?;
    app.backend.store.agree(&caller.account.id, version, Now::read()).await?;
    Ok(())
}

/// Refuses a version that nobody can agree to now.
pub(super) fn check(policy: &Policy, place: &str, version: u32, needed: Needed) -> ApiResult<()> {
    let is_known = (1..=TERMS_VERSION).contains(&version);
    if version == TERMS_VERSION || is_known && needed == Needed::Any {
        return Ok(());
    }
    Err(ApiFault::terms_changed(format!(
        "{place}: got {version}, expected {TERMS_VERSION}, the version of the terms of contributing that is in force; \
         read {}, and agree to that",
        terms_address(policy)
    )))
}

/// The address of the terms, for people.
pub(crate) fn terms_address(policy: &Policy) -> String {
    format!("{}/terms", policy.public_url)
}

/// The version in a request's header.
fn named(headers: &HeaderMap) -> ApiResult<Option<u32>> {
    let Some(given) = headers.get(TERMS_HEADER) else { return Ok(None) };
    let version = given.to_str().ok().and_then(|text| text.parse().ok());
    version.map(Some).ok_or_else(|| {
        ApiFault::invalid(format!(
            "{TERMS_HEADER}: got `{:.40}`, expected the number of a version, such as {TERMS_VERSION}",
            String::from_utf8_lossy(given.as_bytes())
        ))
    })
}

fn not_agreed(policy: &Policy) -> ApiFault {
    let (address, url) = (terms_address(policy), &policy.public_url);
    ApiFault::terms_not_agreed(format!(
        "contributions to this server are given under {DATA_LICENCE}, and nobody has agreed to that yet: read the terms of \
         contributing at {address}; if you agree, say so at {url}/account, by `--agree {TERMS_VERSION}` of diode, or by \
         the header `{TERMS_HEADER}: {TERMS_VERSION}`"
    ))
}

/// The terms of contributing that are in force, and whether whoever asks has yet to agree to them.
#[utoipa::path(
    get, path = "/terms", tag = "accounts", operation_id = "get",
    responses((status = 200, body = Terms)),
)]
pub(crate) async fn terms_in_force(State(app): State<App>, caller: ApiResult<Caller>) -> Json<Terms> {
    let account = caller.ok().map(|caller| caller.account);
    Json(Terms {
        version: TERMS_VERSION,
        licence: DATA_LICENCE.to_owned(),
        text: TERMS_TEXT.to_owned(),
        address: terms_address(app.policy()),
        asked: is_asked(app.policy(), account.as_ref()),
    })
}

pub(super) async fn show_terms() -> Response {
    let mut paragraphs = TERMS_TEXT.split("\n\n").map(str::trim);
    let title = paragraphs.next().unwrap_or_default().trim_start_matches("# ");
    let content = html! {
        div class="card" { @for paragraph in paragraphs { p { (paragraph) } } }
        p { a href="/account" { "Your account" } " · " a href="/contribute" { "Contribute" } }
    };
    page(title, &content)
}

/// The box to tick. Its value is the version that the page shows.
pub(super) fn agreement(is_ticked: bool) -> Markup {
    html! {
        label {
            input type="checkbox" name="terms" value=(TERMS_VERSION) checked[is_ticked];
            " I agree to the " a href="/terms" target="_blank" { "terms of contributing" }
            ", version " (TERMS_VERSION) ": what I send is given under " (DATA_LICENCE)
            ". Needed before you contribute; you can also agree later."
        }
    }
}

/// What an owner has agreed to, or can agree to.
pub(super) fn terms_section(account: &Account) -> Markup {
    let agreed = account.terms.as_ref();
    let day = |time: &str| time.split('T').next().unwrap_or_default().to_owned();
    html! {
        h2 { "Terms of contributing" }
        form class="card" method="post" action="/account/terms" {
            @if let Some(terms) = agreed {
                p {
                    "You agreed to version " (terms.version) " of the " a href="/terms" { "terms of contributing" }
                    " on " (day(&terms.agreed_at)) "."
                }
            }
            @if agreed.is_none_or(|terms| terms.version < TERMS_VERSION) {
                p {
                    "What you send is given under " (DATA_LICENCE) ". Read the "
                    a href="/terms" { "terms of contributing" } ", version " (TERMS_VERSION) "."
                }
                input type="hidden" name="terms" value=(TERMS_VERSION);
                button class="button" { "I agree" }
            }
        }
    }
}

#[derive(Deserialize)]
pub(super) struct AgreedFields {
    terms: u32,
}

pub(super) async fn agree_by_form(
    State(app): State<App>,
    SignedIn { account, session }: SignedIn,
    OwnForm(AgreedFields { terms }): OwnForm<AgreedFields>,
) -> ApiResult<Response> {
    let caller = Caller { account, by: By::Session(session) };
    match agree(&app, &caller, Agree { version: terms }).await {
        Ok(()) => Ok(Redirect::to("/account").into_response()),
        Err(fault) => account::answer(&app, &caller.account, Err(fault)).await,
    }
}

#[cfg(test)]
mod tests {
    use diode_core::ids::Digest;

    use super::*;

    /// People who agreed to a version agreed to this text. A changed text needs a new version.
    #[test]
    fn each_version_has_one_text() {
        let digest = Digest::of(TERMS_TEXT.as_bytes());
        assert_eq!(
            (TERMS_VERSION, digest.as_str()),
            (1, "0e89ad90ded66c5bdebb20ae37b981760e1105c56e09b5c9b591b21aeb1f6a10")
        );
        assert!(TERMS_TEXT.contains(&format!("\n\nVersion {TERMS_VERSION}, of ")));
        assert!(TERMS_TEXT.contains(DATA_LICENCE));
    }
}
