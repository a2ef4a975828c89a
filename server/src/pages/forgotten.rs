//! What to do about a lost password.

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;

use super::form::OwnForm;
use super::layout::{input, page, refused};
use crate::accounts::{self, Peer};
use crate::app::App;
use crate::http::{NoParameters, StrictQuery};

const TITLE: &str = "Password lost";

pub(super) async fn show(State(app): State<App>, _: StrictQuery<NoParameters>) -> Response {
    if app.mailer.is_some() {
        return page(TITLE, &form("", None));
    }
    let content = html! {
        p class="card" {
            "Ask whoever runs this server for a link by which you choose a new password. It is printed by "
            code { "diode-server admin reset NAME" } "."
        }
    };
    page(TITLE, &content)
}

#[derive(Deserialize)]
pub(super) struct Fields {
    who: String,
}

pub(super) async fn submit(
    State(app): State<App>,
    peer: Peer,
    OwnForm(Fields { who }): OwnForm<Fields>,
) -> Response {
    match accounts::forgotten(&app, &peer, &who).await {
        Ok(()) => page(TITLE, &sent()),
        Err(fault) => refused(TITLE, fault, |said| form(&who, Some(said))),
    }
}

/// The answer to everybody who asks, whether the account exists or not.
fn sent() -> Markup {
    html! {
        p class="card" role="status" {
            "If there is such an account, and it has a confirmed e-mail address, a link is on its way there. It works "
            "once, within an hour."
        }
        p class="card" {
            "Does nothing arrive? Look among unwanted mails, or ask whoever runs this server for a link."
        }
    }
}

fn form(who: &str, said: Option<&Markup>) -> Markup {
    html! {
        form class="card" method="post" action="/password/forgotten" {
            @if let Some(said) = said { (said) }
            p { "You get a link by mail, if your account has a confirmed e-mail address." }
            (input("Name or e-mail address", "who", "text", "username", who))
            button class="button primary" { "Send a link" }
        }
        p { "If it has none, ask whoever runs this server for a link." }
    }
}
