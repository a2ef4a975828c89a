//! Chooses a password by a link that works once, and says how to get such a link.

use axum::extract::State;
use axum::response::Response;
use diode_api::Password;
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form::OwnForm;
use super::layout::{input, page, refused};
use crate::accounts;
use crate::app::App;
use crate::http::{NoParameters, StrictQuery};
use crate::store::PasswordReset;

const TITLE: &str = "Choose a password";

#[derive(Deserialize, IntoParams)]
pub(super) struct Linked {
    link: String,
}

pub(super) async fn show(StrictQuery(Linked { link }): StrictQuery<Linked>) -> Response {
    page(TITLE, &form(&link, None))
}

#[derive(Deserialize)]
pub(super) struct Fields {
    link: String,
    password: Password,
}

pub(super) async fn submit(
    State(app): State<App>,
    OwnForm(Fields { link, password }): OwnForm<Fields>,
) -> Response {
    match accounts::choose_password(&app, &link, password).await {
        Ok(PasswordReset { account, unlinked }) => {
            let content = html! {
                p class="card" {
                    "The password of " (account) " is changed, and all its sessions have ended. "
                    a href="/sign-in" { "Sign in" } "."
                }
                @for issuer in unlinked {
                    p class="card" {
                        "The account was linked with " (issuer) ", which does not open it any more: whoever had "
                        "the old password may have linked it. You can link it again at "
                        a href="/account" { "your account" } "."
                    }
                }
            };
            page(TITLE, &content)
        }
        Err(fault) => refused(TITLE, fault, |said| form(&link, Some(said))),
    }
}

fn form(link: &str, said: Option<&Markup>) -> Markup {
    html! {
        form class="card" method="post" action="/password" {
            @if let Some(said) = said { (said) }
            (input("New password, at least 10 characters", "password", "password", "new-password", ""))
            input type="hidden" name="link" value=(link);
            button class="button primary" { "Choose" }
        }
    }
}

/// Says whom to ask for a link if the password is lost.
pub(super) async fn show_lost(_: StrictQuery<NoParameters>) -> Response {
    let content = html! {
        p class="card" {
            "Ask whoever runs this server for a link by which you choose a new password. They get it at "
            a href="/admin/accounts" { "Accounts" } " or by " code { "diode-server admin reset NAME" } "."
        }
    };
    page("Password lost", &content)
}
