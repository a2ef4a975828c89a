//! Signing in by an OpenID Connect provider: the way there and back, and choosing a name.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{AppendHeaders, IntoResponse as _, Redirect, Response};
use diode_api::Password;
use maud::{Markup, html};
use serde::Deserialize;

use crate::accounts::openid::{Finished, Provided, Wish, begin, choose_name, finish, unlink, who_signs_up};
use crate::accounts::sessions::confirm;
use crate::accounts::terms::agreement;
use crate::accounts::{Peer, SignedIn, pages as account};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::pages::{OwnForm, go_on, own_path};
use crate::pages::{day, input, page, refused};

const TITLE: &str = "Sign in";
const NAME_TITLE: &str = "Choose a name";
const REFRESH: HeaderName = HeaderName::from_static("refresh");

#[derive(Deserialize)]
pub(in crate::accounts) struct Fields {
    next: Option<String>,
    invitation: Option<String>,
}

pub(in crate::accounts) async fn submit(
    State(app): State<App>,
    peer: Peer,
    OwnForm(Fields { next, invitation }): OwnForm<Fields>,
) -> Response {
    let next = own_path(next.as_deref()).map(str::to_owned);
    let begun = begin(&app, &peer, Wish { next, invitation, link: None }).await;
    begun.and_then(|begun| on_the_way(&app, begun)).unwrap_or_else(|fault| refused(TITLE, fault, again))
}

/// Sends the browser to the provider by a `Refresh` header. A redirect would not do: browsers that apply
/// `form-action` to redirects stop a redirect from a form to another site.
pub(in crate::accounts) fn on_the_way(
    app: &App,
    (address, cookie): (String, HeaderValue),
) -> ApiResult<Response> {
    let label = label(app);
    let content = html! {
        p class="card" { "You are on the way to " (label) ". " a href=(address) { "Go on to " (label) } }
    };
    let refresh = HeaderValue::try_from(format!("0;url={address}")).map_err(ApiFault::internal)?;
    Ok(([(REFRESH, refresh), (header::SET_COOKIE, cookie)], page(TITLE, &content)).into_response())
}

pub(in crate::accounts) async fn callback(
    State(app): State<App>,
    headers: HeaderMap,
    caller: ApiResult<SignedIn>,
    answer: Result<Query<Provided>, QueryRejection>,
) -> Response {
    let finished = match answer {
        Ok(Query(answer)) => finish(&app, &headers, caller.ok(), answer).await,
        Err(error) => Err(ApiFault::invalid(error.body_text())),
    };
    match finished {
        Ok(Finished::SignedIn { cookie, next }) => {
            ([(header::SET_COOKIE, cookie)], go_on(next.as_deref())).into_response()
        }
        Ok(Finished::Linked) => Redirect::to("/account").into_response(),
        Ok(Finished::Unnamed { cookie }) => {
            ([(header::SET_COOKIE, cookie)], Redirect::to("/sign-up/openid")).into_response()
        }
        Err(fault) => refused(TITLE, fault, again),
    }
}

fn again(said: &Markup) -> Markup {
    html! {
        (said)
        p { a href="/sign-in" { "Sign in" } " · " a href="/account" { "Your account" } }
    }
}

pub(in crate::accounts) async fn show_name(State(app): State<App>, headers: HeaderMap) -> Response {
    match who_signs_up(&app, &headers).await {
        Ok(somebody) => page(
            NAME_TITLE,
            &name_form(label(&app), somebody.suggestion.as_deref().unwrap_or_default(), false, None),
        ),
        Err(fault) => refused(NAME_TITLE, fault, again),
    }
}

#[derive(Deserialize)]
pub(in crate::accounts) struct NameFields {
    name: String,
    terms: Option<u32>,
}

pub(in crate::accounts) async fn submit_name(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    OwnForm(NameFields { name, terms }): OwnForm<NameFields>,
) -> Response {
    let signed_up = async {
        let somebody = who_signs_up(&app, &headers).await?;
        let cookies = choose_name(&app, &peer, &headers, name.trim().parse()?, terms).await?;
        Ok::<_, ApiFault>((somebody.next, cookies))
    };
    match signed_up.await {
        Ok((next, cookies)) => {
            let cookies = AppendHeaders(cookies.map(|cookie| (header::SET_COOKIE, cookie)));
            (cookies, go_on(next.as_deref())).into_response()
        }
        Err(fault) => {
            let form = |said: &Markup| name_form(label(&app), &name, terms.is_some(), Some(said));
            refused(NAME_TITLE, fault, form)
        }
    }
}

fn name_form(label: &str, name: &str, agrees: bool, said: Option<&Markup>) -> Markup {
    html! {
        form class="card" method="post" action="/sign-up/openid" {
            @if let Some(said) = said { (said) }
            p { (label) " knows you, but there is no account here yet. It gets its name now." }
            p { "Choose a name that others may see: lower-case letters, digits and dashes." }
            (input("Name", "name", "text", "username", name))
            (agreement(agrees))
            button class="button primary" { "Make the account" }
        }
        p { "Have an account? " a href="/sign-in" { "Sign in" } " and link it with " (label) "." }
    }
}

/// A form with one button that begins a sign-in.
pub(in crate::accounts) fn button(app: &App, next: Option<&str>, invitation: Option<&str>) -> Markup {
    let Some(provider) = &app.provider else { return html! {} };
    html! {
        form class="card" method="post" action="/sign-in/openid" {
            @if let Some(next) = own_path(next) { input type="hidden" name="next" value=(next); }
            @if let Some(invitation) = invitation { input type="hidden" name="invitation" value=(invitation); }
            button class="button" { "Sign in with " (provider.label()) }
        }
    }
}

/// What an owner can do about the provider.
pub(in crate::accounts) fn section(label: &str, since: Option<&str>, has_password: bool) -> Markup {
    let is_linked = since.is_some();
    let (action, verb) =
        if is_linked { ("/account/openid/unlink", "Unlink") } else { ("/account/openid", "Link") };
    html! {
        h2 { (label) }
        form class="card" method="post" action=(action) {
            @if let Some(since) = since {
                p {
                    "You can sign in with " (label) ", since " (day(since)) ". If somebody else linked it, "
                    "unlink it and change the password."
                }
            } @else {
                p { "Link your account, and you can sign in with " (label) ", too." }
            }
            @if has_password {
                (input("Password", "password", "password", "current-password", ""))
                button class="button" { (verb) }
            } @else if is_linked {
                p { "It is the only way into your account. Choose a password first to unlink it." }
            } @else {
                button class="button" { (verb) }
            }
        }
    }
}

fn label(app: &App) -> &str {
    app.provider.as_ref().map_or("", |provider| provider.label())
}

#[derive(Deserialize)]
pub(in crate::accounts) struct ConfirmFields {
    password: Option<Password>,
}

pub(in crate::accounts) async fn link_by_form(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(ConfirmFields { password }): OwnForm<ConfirmFields>,
) -> ApiResult<Response> {
    let account = caller.account.clone();
    let begun = async {
        // An open session is not enough, because the provider opens a linked account for good.
        confirm(&app, &peer, &caller, password).await?;
        let wish = Wish { link: Some(caller), ..Wish::default() };
        on_the_way(&app, begin(&app, &peer, wish).await?)
    };
    match begun.await {
        Ok(response) => Ok(response),
        Err(fault) => account::answer(&app, &account, Err(fault)).await,
    }
}

pub(in crate::accounts) async fn unlink_by_form(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(ConfirmFields { password }): OwnForm<ConfirmFields>,
) -> ApiResult<Response> {
    let done = unlink(&app, &peer, &caller, password).await;
    let said =
        done.map(|()| html! { p class="notice" role="status" { "Your account is not linked any more." } });
    account::answer(&app, &caller.account, said).await
}
