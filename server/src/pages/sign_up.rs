use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use diode_api::query::from_text;
use diode_api::{Password, SignUp};
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form::{OwnForm, go_on};
use super::layout::{input, page, refused};
use super::openid::button;
use super::terms::agreement;
use crate::accounts::{self, Peer, SignUps};
use crate::app::App;
use crate::http::StrictQuery;

const TITLE: &str = "Sign up";

#[derive(Deserialize, IntoParams)]
pub(super) struct Invited {
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<String>)]
    invitation: Option<String>,
}

pub(super) async fn show(
    State(app): State<App>,
    StrictQuery(Invited { invitation }): StrictQuery<Invited>,
) -> Response {
    if invitation.is_none() && app.policy().sign_ups != SignUps::Open {
        let content = html! {
            p class="card" { "This server makes accounts by invitation. Ask whoever runs it for a link." }
        };
        return page(TITLE, &content);
    }
    page(TITLE, &form(&app, &Fields::invited(invitation), None))
}

#[derive(Clone, Deserialize)]
pub(super) struct Fields {
    name: String,
    password: Password,
    invitation: Option<String>,
    terms: Option<u32>,
}

impl Fields {
    /// The form before anything is filled in.
    fn invited(invitation: Option<String>) -> Self {
        Self { name: String::new(), password: Password::new(""), invitation, terms: None }
    }
}

pub(super) async fn submit(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    OwnForm(fields): OwnForm<Fields>,
) -> Response {
    let signed_up = async {
        let Fields { password, invitation, terms, .. } = fields.clone();
        let request = SignUp { name: fields.name.trim().parse()?, password, invitation, terms };
        accounts::sign_up(&app, &peer, &headers, request).await
    };
    match signed_up.await {
        Ok((_, cookie)) => ([(header::SET_COOKIE, cookie)], go_on(None)).into_response(),
        Err(fault) => refused(TITLE, fault, |said| form(&app, &fields, Some(said))),
    }
}

fn form(app: &App, fields: &Fields, said: Option<&Markup>) -> Markup {
    let invitation = fields.invitation.as_deref();
    html! {
        form class="card" method="post" action="/sign-up" {
            @if let Some(said) = said { (said) }
            p { "Choose a name that others may see: lower-case letters, digits and dashes." }
            (input("Name", "name", "text", "username", &fields.name))
            (input("Password, at least 10 characters", "password", "password", "new-password", ""))
            @if let Some(invitation) = invitation {
                input type="hidden" name="invitation" value=(invitation);
            }
            (agreement(fields.terms.is_some()))
            button class="button primary" { "Sign up" }
        }
        (button(app, None, invitation))
        p { "Have an account? " a href="/sign-in" { "Sign in" } "." }
    }
}
