use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use diode_api::query::from_text;
use diode_api::{Password, SignIn};
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form::{OwnForm, go_on, own_path};
use super::layout::{input, page, refused};
use super::openid::button;
use crate::accounts::{self, Peer, SignUps, SignedIn};
use crate::app::App;
use crate::http::{ApiResult, StrictQuery};

const TITLE: &str = "Sign in";

#[derive(Deserialize, IntoParams)]
pub(super) struct Next {
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<String>)]
    next: Option<String>,
}

pub(super) async fn show(State(app): State<App>, StrictQuery(Next { next }): StrictQuery<Next>) -> Response {
    page(TITLE, &form(&app, "", next.as_deref(), None))
}

#[derive(Deserialize)]
pub(super) struct Fields {
    name: String,
    password: Password,
    next: Option<String>,
}

pub(super) async fn submit(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    OwnForm(Fields { name, password, next }): OwnForm<Fields>,
) -> Response {
    let signed_in = async {
        let request = SignIn { name: name.trim().parse()?, password };
        accounts::sign_in(&app, &peer, &headers, request).await
    };
    match signed_in.await {
        Ok((_, cookie)) => ([(header::SET_COOKIE, cookie)], go_on(next.as_deref())).into_response(),
        Err(fault) => refused(TITLE, fault, |said| form(&app, &name, next.as_deref(), Some(said))),
    }
}

pub(super) async fn sign_out(State(app): State<App>, caller: SignedIn) -> ApiResult<Response> {
    let cookie = accounts::sign_out(&app, &caller.session).await?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/sign-in")).into_response())
}

fn form(app: &App, name: &str, next: Option<&str>, said: Option<&Markup>) -> Markup {
    html! {
        form class="card" method="post" action="/sign-in" {
            @if let Some(said) = said { (said) }
            (input("Name", "name", "text", "username", name))
            (input("Password", "password", "password", "current-password", ""))
            @if let Some(next) = own_path(next) { input type="hidden" name="next" value=(next); }
            button class="button primary" { "Sign in" }
        }
        (button(app, next, None))
        p { a href="/password/forgotten" { "Password lost?" } }
        @if app.policy().sign_ups == SignUps::Open {
            p { "No account yet? " a href="/sign-up" { "Sign up" } "." }
        }
    }
}
