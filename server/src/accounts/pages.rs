//! The pages to sign up and in, to choose a password, and to look after an account.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use diode_api::query::from_text;
use diode_api::{Account, IssuedToken, NewToken, Password, Scope, SignIn, SignUp, Token, Uploads};
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::accounts;
use crate::accounts::openid::pages::{button, section};
use crate::accounts::terms::agreement;
use crate::accounts::{Peer, SignUps, SignedIn, terms};
use crate::app::App;
use crate::http::{ApiResult, StrictQuery};
use crate::pages::{OwnForm, go_on, own_path, sign_in_first};
use crate::pages::{day, input, minute, page, refused};
use crate::store::PasswordReset;

const YOUR_ACCOUNT: &str = "Your account";

pub(super) async fn show_account(State(app): State<App>, caller: ApiResult<SignedIn>) -> ApiResult<Response> {
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

pub(super) async fn change_password_by_form(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(PasswordFields { current, new }): OwnForm<PasswordFields>,
) -> ApiResult<Response> {
    let done = accounts::change_password(&app, &peer, &caller, current, new).await;
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

pub(super) async fn issue_token(
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

pub(super) async fn revoke_token_of_form(
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

pub(super) async fn delete_by_form(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(DeleteFields { password, uploads }): OwnForm<DeleteFields>,
) -> ApiResult<Response> {
    match accounts::delete(&app, &peer, &caller, password, uploads).await {
        Ok(cookie) => Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()),
        Err(fault) => answer(&app, &caller.account, Err(fault)).await,
    }
}

/// The page after an action, with its result or the reason why it was refused.
pub(super) async fn answer(app: &App, account: &Account, outcome: ApiResult<Markup>) -> ApiResult<Response> {
    let seen = Seen::of(app, account).await?;
    Ok(match outcome {
        Ok(message) => page(YOUR_ACCOUNT, &content(account, &seen, &message)),
        Err(fault) => refused(YOUR_ACCOUNT, fault, |message| content(account, &seen, message)),
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
        (terms::terms_section(account))
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
            label { input type="checkbox" required; " I want the account " strong { (account.name) } " deleted" }
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

const SIGN_IN: &str = "Sign in";

#[derive(Deserialize, IntoParams)]
pub(super) struct Next {
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<String>)]
    next: Option<String>,
}

pub(super) async fn show_sign_in(
    State(app): State<App>,
    StrictQuery(Next { next }): StrictQuery<Next>,
) -> Response {
    page(SIGN_IN, &sign_in_form(&app, "", next.as_deref(), None))
}

#[derive(Deserialize)]
pub(super) struct SignInFields {
    name: String,
    password: Password,
    next: Option<String>,
}

pub(super) async fn submit_sign_in(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    OwnForm(SignInFields { name, password, next }): OwnForm<SignInFields>,
) -> Response {
    let signed_in = async {
        let request = SignIn { name: name.trim().parse()?, password };
        accounts::sign_in(&app, &peer, &headers, request).await
    };
    match signed_in.await {
        Ok((_, cookie)) => ([(header::SET_COOKIE, cookie)], go_on(next.as_deref())).into_response(),
        Err(fault) => refused(SIGN_IN, fault, |said| sign_in_form(&app, &name, next.as_deref(), Some(said))),
    }
}

pub(super) async fn sign_out(State(app): State<App>, caller: SignedIn) -> ApiResult<Response> {
    let cookie = accounts::sign_out(&app, &caller.session).await?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/sign-in")).into_response())
}

fn sign_in_form(app: &App, name: &str, next: Option<&str>, said: Option<&Markup>) -> Markup {
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

const SIGN_UP: &str = "Sign up";

#[derive(Deserialize, IntoParams)]
pub(super) struct Invited {
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<String>)]
    invitation: Option<String>,
}

pub(super) async fn show_sign_up(
    State(app): State<App>,
    StrictQuery(Invited { invitation }): StrictQuery<Invited>,
) -> Response {
    if invitation.is_none() && app.policy().sign_ups != SignUps::Open {
        let content = html! {
            p class="card" { "This server makes accounts by invitation. Ask whoever runs it for a link." }
        };
        return page(SIGN_UP, &content);
    }
    page(SIGN_UP, &sign_up_form(&app, &SignUpFields::invited(invitation), None))
}

#[derive(Clone, Deserialize)]
pub(super) struct SignUpFields {
    name: String,
    password: Password,
    invitation: Option<String>,
    terms: Option<u32>,
}

impl SignUpFields {
    /// The form before anything is filled in.
    fn invited(invitation: Option<String>) -> Self {
        Self { name: String::new(), password: Password::new(""), invitation, terms: None }
    }
}

pub(super) async fn submit_sign_up(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    OwnForm(fields): OwnForm<SignUpFields>,
) -> Response {
    let signed_up = async {
        let SignUpFields { password, invitation, terms, .. } = fields.clone();
        let request = SignUp { name: fields.name.trim().parse()?, password, invitation, terms };
        accounts::sign_up(&app, &peer, &headers, request).await
    };
    match signed_up.await {
        Ok((_, cookie)) => ([(header::SET_COOKIE, cookie)], go_on(None)).into_response(),
        Err(fault) => refused(SIGN_UP, fault, |said| sign_up_form(&app, &fields, Some(said))),
    }
}

fn sign_up_form(app: &App, fields: &SignUpFields, said: Option<&Markup>) -> Markup {
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

const CHOOSE_PASSWORD: &str = "Choose a password";

#[derive(Deserialize, IntoParams)]
pub(super) struct Linked {
    link: String,
}

pub(super) async fn show_password(StrictQuery(Linked { link }): StrictQuery<Linked>) -> Response {
    page(CHOOSE_PASSWORD, &password_form(&link, None))
}

#[derive(Deserialize)]
pub(super) struct ChosenFields {
    link: String,
    password: Password,
}

pub(super) async fn submit_password(
    State(app): State<App>,
    OwnForm(ChosenFields { link, password }): OwnForm<ChosenFields>,
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
            page(CHOOSE_PASSWORD, &content)
        }
        Err(fault) => refused(CHOOSE_PASSWORD, fault, |said| password_form(&link, Some(said))),
    }
}

fn password_form(link: &str, said: Option<&Markup>) -> Markup {
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
pub(super) async fn show_lost() -> Response {
    let content = html! {
        p class="card" {
            "Ask whoever runs this server for a link by which you choose a new password. They make it by "
            code { "diode-server admin reset NAME" } "."
        }
    };
    page("Password lost", &content)
}
