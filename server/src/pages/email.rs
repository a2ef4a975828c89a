//! Adds an e-mail address to an account, and removes it.

use axum::extract::State;
use axum::response::Response;
use diode_api::Password;
use maud::html;
use serde::Deserialize;
use utoipa::IntoParams;

use super::account::answer;
use super::form::{OwnForm, sign_in_first};
use super::layout::page;
use crate::accounts::{self, Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiResult, StrictQuery};
use crate::mail::EmailAddress;

#[derive(Deserialize, IntoParams)]
pub(super) struct Linked {
    link: String,
}

/// Opening the link changes nothing, because programs that scan mails follow links.
pub(super) async fn show(
    StrictQuery(Linked { link }): StrictQuery<Linked>,
    caller: ApiResult<SignedIn>,
) -> Response {
    let Ok(SignedIn { account, .. }) = caller else {
        // A secret has only letters and digits. Anything else is no link.
        let plain = link.chars().all(|c| c.is_ascii_alphanumeric());
        return sign_in_first(&if plain {
            format!("/account/email?link={link}")
        } else {
            "/account".to_owned()
        });
    };
    let content = html! {
        form class="card" method="post" action="/account/email/confirm" {
            p { "Mails for the account " strong { (account.name) } " go to the address that got this link." }
            input type="hidden" name="link" value=(link);
            button class="button primary" { "Confirm" }
        }
    };
    page("Confirm the address", &content)
}

#[derive(Deserialize)]
pub(super) struct ConfirmFields {
    link: String,
}

pub(super) async fn confirm(
    State(app): State<App>,
    caller: SignedIn,
    OwnForm(ConfirmFields { link }): OwnForm<ConfirmFields>,
) -> ApiResult<Response> {
    let done = accounts::confirm_email(&app, &caller, &link).await;
    let said = done.map(|email| html! { p class="notice" role="status" { "Mails go to " (email) " now." } });
    answer(&app, &caller.account, said).await
}

#[derive(Deserialize)]
pub(super) struct Fields {
    email: String,
    password: Option<Password>,
}

pub(super) async fn submit(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(Fields { email, password }): OwnForm<Fields>,
) -> ApiResult<Response> {
    let asked = async {
        let email: EmailAddress = email.trim().parse()?;
        accounts::ask_to_confirm(&app, &peer, &caller, &email, password).await?;
        Ok(html! {
            p class="notice" role="status" { "A link is on its way to " (email) ". Follow it within a day." }
        })
    };
    let said = asked.await;
    answer(&app, &caller.account, said).await
}

#[derive(Deserialize)]
pub(super) struct RemoveFields {
    password: Option<Password>,
}

pub(super) async fn remove(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(RemoveFields { password }): OwnForm<RemoveFields>,
) -> ApiResult<Response> {
    let done = accounts::remove_email(&app, &peer, &caller, password).await;
    let said = done.map(|()| html! { p class="notice" role="status" { "Your account has no address now." } });
    answer(&app, &caller.account, said).await
}
