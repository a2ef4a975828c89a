//! What an owner can do with an account.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Redirect, Response};
use diode_api::{
    Account, DeleteAccount, IssuedToken, NewPassword, NewToken, Password, Scope, Token, Uploads,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::form::{OwnForm, sign_in_first};
use super::layout::{day, input, minute, page, refused};
use super::openid::section;
use super::terms;
use crate::accounts::{self, Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiResult, NoParameters, StrictQuery};

const TITLE: &str = "Your account";

pub(super) async fn show(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    caller: ApiResult<SignedIn>,
) -> ApiResult<Response> {
    match caller {
        Ok(caller) => answer(&app, &caller.account, Ok(html! {})).await,
        Err(_) => Ok(sign_in_first("/account")),
    }
}

#[derive(Deserialize)]
pub(super) struct PasswordFields {
    current: Option<Password>,
    new: Password,
}

pub(super) async fn change_password(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(PasswordFields { current, new }): OwnForm<PasswordFields>,
) -> ApiResult<Response> {
    let done = accounts::change_password(&app, &peer, &caller, NewPassword { current, new }).await;
    answer(
        &app,
        &caller.account,
        done.map(|()| {
            html! {
                p class="notice" role="status" { "The password is changed. All other sessions have ended." }
            }
        }),
    )
    .await
}

/// A form cannot send a list, so each scope has its own field.
#[derive(Deserialize)]
pub(super) struct TokenFields {
    name: String,
    upload: Option<String>,
    agent: Option<String>,
    train: Option<String>,
    admin: Option<String>,
}

pub(super) async fn issue(
    State(app): State<App>,
    SignedIn { account, .. }: SignedIn,
    OwnForm(fields): OwnForm<TokenFields>,
) -> ApiResult<Response> {
    let ticked = [
        (fields.upload, Scope::Upload),
        (fields.agent, Scope::Agent),
        (fields.train, Scope::Train),
        (fields.admin, Scope::Admin),
    ];
    let scopes = ticked.into_iter().filter_map(|(ticked, scope)| ticked.map(|_| scope)).collect();
    let name = fields.name.trim().to_owned();
    let issued = accounts::issue(&app, &account, NewToken { name, scopes, days: None }).await;
    answer(
        &app,
        &account,
        issued.map(|IssuedToken { secret, token }| {
            html! {
                div class="card" role="status" {
                    p { "This is the token " strong { (token.name) } ". It is shown this once: copy it now." }
                    p class="secret" { (secret) }
                    p { "Use it with " code { "diode login --paste" } " or as " code { "DIODE_TOKEN" } "." }
                }
            }
        }),
    )
    .await
}

#[derive(Deserialize)]
pub(super) struct RevokeFields {
    id: String,
}

pub(super) async fn revoke(
    State(app): State<App>,
    SignedIn { account, .. }: SignedIn,
    OwnForm(RevokeFields { id }): OwnForm<RevokeFields>,
) -> ApiResult<Response> {
    // A token that is gone already counts as revoked.
    app.backend.store.revoke_token(&account.id, &id.parse()?).await?;
    Ok(Redirect::to("/account").into_response())
}

#[derive(Deserialize)]
pub(super) struct DeleteFields {
    password: Option<Password>,
    uploads: Uploads,
}

pub(super) async fn delete(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(DeleteFields { password, uploads }): OwnForm<DeleteFields>,
) -> ApiResult<Response> {
    match accounts::delete(&app, &peer, &caller, DeleteAccount { password, uploads }).await {
        Ok(cookie) => Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()),
        Err(fault) => answer(&app, &caller.account, Err(fault)).await,
    }
}

/// The page after an action, with its result or the reason why it was refused.
pub(super) async fn answer(app: &App, account: &Account, outcome: ApiResult<Markup>) -> ApiResult<Response> {
    let seen = Seen::of(app, account).await?;
    Ok(match outcome {
        Ok(message) => page(TITLE, &content(account, &seen, &message)),
        Err(fault) => refused(TITLE, fault, |message| content(account, &seen, message)),
    })
}

/// What the page shows of an account.
struct Seen {
    tokens: Vec<Token>,
    has_password: bool,
    /// The provider's name for people, and since when the account is linked with it.
    provider: Option<(String, Option<String>)>,
}

impl Seen {
    async fn of(app: &App, account: &Account) -> ApiResult<Self> {
        let store = &app.backend.store;
        let credentials = store.credentials(&account.name).await?;
        let provider = match &app.provider {
            Some(provider) => {
                let mut linked = store.identities(&account.id).await?.into_iter();
                let own = linked.find(|linked| linked.issuer == provider.issuer());
                Some((provider.label().to_owned(), own.map(|own| own.since)))
            }
            None => None,
        };
        let has_password = credentials.is_some_and(|found| found.password.is_some());
        Ok(Self { tokens: store.tokens(&account.id).await?, has_password, provider })
    }
}

fn content(account: &Account, seen: &Seen, message: &Markup) -> Markup {
    html! {
        (message)
        form class="row" method="post" action="/sign-out" {
            p class="grow" {
                "Signed in as " strong { (account.name) } @if account.admin { ", an administrator" } "."
            }
            button class="button" { "Sign out" }
        }
        p { a href="/account/contributions" { "Your uploads, agents and records" } }
        p { a href="/account/models" { "Contributed models" } }
        @if account.admin { p { a href="/admin" { "Look after this server" } } }
        h2 { "Tokens" }
        @for token in &seen.tokens { (token_card(token)) }
        (token_form(account))
        (terms::section(account))
        h2 { "Password" }
        form class="card" method="post" action="/account/password" {
            @if seen.has_password {
                (input("Current password", "current", "password", "current-password", ""))
            }
            (input("New password, at least 10 characters", "new", "password", "new-password", ""))
            button class="button" { @if seen.has_password { "Change password" } @else { "Choose a password" } }
        }
        @if let Some((label, since)) = &seen.provider { (section(label, since.as_deref(), seen.has_password)) }
        h2 { "Delete the account" }
        form class="card" method="post" action="/account/delete" {
            p { "This cannot be undone." }
            label { input type="radio" name="uploads" value="keep" checked; " My uploads and accepted models stay, without my name" }
            label { input type="radio" name="uploads" value="delete"; " My uploads and models are deleted, too" }
            @if seen.has_password { (input("Password", "password", "password", "current-password", "")) }
            button class="button danger" { "Delete for good" }
        }
    }
}

fn token_card(token: &Token) -> Markup {
    let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
    html! {
        form class="card" method="post" action="/account/tokens/revoke" {
            div class="row" {
                p class="grow" {
                    strong { (token.name) } br;
                    (scopes.join(", ")) " · until " (day(&token.expires_at)) " · "
                    @match &token.used_at {
                        Some(used) => { "last used " (minute(used)) " UTC" }
                        None => "never used",
                    }
                }
                input type="hidden" name="id" value=(token.id);
                button class="button small danger" { "Revoke" }
            }
        }
    }
}

fn token_form(account: &Account) -> Markup {
    html! {
        form class="card" method="post" action="/account/tokens" {
            (input("A new token, for", "name", "text", "off", ""))
            div class="checks" {
                @for scope in Scope::ALL.iter().filter(|scope| **scope != Scope::Admin || account.admin) {
                    label {
                        input type="checkbox" name=(scope) value="on" checked[*scope == Scope::Upload];
                        " " (scope)
                    }
                }
            }
            button class="button" { "Make a token" }
        }
    }
}
