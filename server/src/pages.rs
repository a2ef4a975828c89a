//! The pages that the server writes itself: to sign up and in, to allow a program, to look after an account, and to
//! look after the server. They are plain HTML with forms, so they work without scripts and without the dashboard.

pub(crate) mod models;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{MethodRouter, get};
use axum::{Form, Router};
use diode_api::PAGES;
use headers::{Cookie, HeaderMapExt as _};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::description::refuse_query;
use crate::http::{ApiFault, small_body};

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/account/models", plain(get(models::show).post(models::decide)))
        .merge(crate::accounts::pages())
        .merge(crate::admin::pages::routes())
        .layer(from_fn(themed))
}

/// The theme that the reader has chosen on the dashboard, which keeps it in a cookie.
pub(crate) fn theme(headers: &HeaderMap) -> Option<&'static str> {
    let cookies = headers.typed_get::<Cookie>()?;
    ["light", "dark"].into_iter().find(|theme| cookies.get("diode-theme") == Some(theme))
}

tokio::task_local! {
    /// The theme of the page that is being made.
    static THEME: Option<&'static str>;
}

async fn themed(request: Request, next: Next) -> Response {
    let theme = theme(request.headers());
    THEME.scope(theme, next.run(request)).await
}

/// What is in the header of every page, as in `web/src/components/chrome.rs`, with something at its end.
pub(crate) fn bar(path: &str, end: &Markup) -> Markup {
    let is_current = |page: &str| match path.strip_prefix(page) {
        Some(rest) => rest.is_empty() || (page != "/" && rest.starts_with('/')),
        None => false,
    };
    html! {
        div class="top-inner" {
            a class="brand" href="/" aria-label="Diode, overview" { (PreEscaped(LOGO)) "Diode" }
            nav class="nav" aria-label="Pages" {
                @for page in PAGES.iter().filter(|page| !page.link.is_empty()) {
                    a href=(page.path) aria-current=[is_current(page.path).then_some("page")] { (page.link) }
                }
            }
            (end)
        }
    }
}

const LOGO: &str = r#"<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.25" aria-hidden="true"><path d="M7 5.5v13l9.5-6.5z" fill="currentColor" stroke-linejoin="round"/><path d="M17.5 5v14M1 12h6M17.5 12H23"/></svg>"#;

/// Pages without parameters refuse a query.
pub(crate) fn plain(methods: MethodRouter<App>) -> MethodRouter<App> {
    methods.layer(from_fn(refuse_query))
}

/// The longest path that is kept: far longer than any path of this server. A limit is needed, because the
/// database keeps the path while the browser is at a provider.
const LONGEST_PATH: usize = 1024;

/// The fields of a form.
pub(crate) struct OwnForm<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for OwnForm<T> {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Self, Response> {
        let (head, body) = request.into_parts();
        let bytes = small_body(&head.headers, body).await.map_err(not_understood)?;
        let request = Request::from_parts(head, Body::from(bytes));
        let form = Form::<T>::from_request(request, app).await;
        form.map(|Form(fields)| Self(fields))
            .map_err(|error| not_understood(ApiFault::invalid(error.body_text())))
    }
}

/// Only programs send such forms, not the server's own pages. So nobody loses what they typed.
fn not_understood(fault: ApiFault) -> Response {
    refused("Form not understood", fault, |said| {
        html! {
            (said)
            p class="card" { "Go back, load the page again and send its form once more." }
        }
    })
}

/// A redirect to the page that a visitor came from, if it is a page of this server.
pub(crate) fn go_on(next: Option<&str>) -> Response {
    Redirect::to(own_path(next).unwrap_or("/account")).into_response()
}

/// A redirect to the sign-in page, which then leads back.
pub(crate) fn sign_in_first(next: &str) -> Response {
    // No other characters in the paths of these pages need to be encoded.
    Redirect::to(&format!("/sign-in?next={}", next.replace('?', "%3F").replace('=', "%3D"))).into_response()
}

/// A path on this server. `//host` and `/\host` are refused, since they lead to another host.
pub(crate) fn own_path(next: Option<&str>) -> Option<&str> {
    let plain = |path: &str| path.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    let next = next.filter(|path| path.len() <= LONGEST_PATH && plain(path));
    next.filter(|path| path.starts_with('/') && !path.starts_with("//"))
}

/// The dashboard's own colours and elements, and the styles of these pages.
const STYLE: &str = concat!(
    include_str!("../../web/style/00-tokens.css"),
    include_str!("../../web/style/10-base.css"),
    include_str!("../../web/style/20-layout.css"),
    include_str!("../../web/style/40-tables.css"),
    include_str!("../../web/style/50-forms.css"),
    include_str!("pages/pages.css"),
);

/// The dashboard's icon. Without it, browsers ask for a file that is not there.
const ICON: &str = include_str!("../../web/icon.uri");

/// A page with a title and content.
pub(crate) fn page(title: &str, content: &Markup) -> Response {
    let theme = THEME.try_with(|theme| *theme).ok().flatten();
    let account = html! { a class="account" href="/account" { "Account" } };
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme=[theme] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Diode" }
                link rel="icon" href=(ICON);
                style { (PreEscaped(STYLE)) }
            }
            body {
                header class="top" { (bar("/account", &account)) }
                main class="page" {
                    h1 { (title) }
                    (content)
                }
            }
        }
    };
    let mut response = page.into_response();
    // Pages say who is signed in, and some show a secret, so no cache may keep them.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The same page again, with the reason why something was refused.
pub(crate) fn refused(title: &str, fault: ApiFault, content: impl FnOnce(&Markup) -> Markup) -> Response {
    let message = html! { p class="notice bad" role="alert" { (fault.message()) } };
    let (mut head, _) = fault.into_response().into_parts();
    let (page, body) = page(title, &content(&message)).into_parts();
    head.headers.extend(page.headers);
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::new(body))
}

/// An input with its label.
pub(crate) fn input(label: &str, name: &str, kind: &str, autocomplete: &str, value: &str) -> Markup {
    html! {
        label class="field" {
            span class="label" { (label) }
            input type=(kind) name=(name) value=(value) autocomplete=(autocomplete) required
                autocapitalize="none" spellcheck="false";
        }
    }
}

/// A number with its noun: `1 upload`, `2 uploads`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// An RFC 3339 time to the minute: `2026-11-25 10:57`.
pub(crate) fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

/// The day of an RFC 3339 time.
pub(crate) fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or_default()
}

#[cfg(test)]
mod form_tests {
    use super::*;

    #[test]
    fn only_our_own_pages_are_gone_on_to() {
        for own in ["/", "/device?code=BCDF-GHJK"] {
            assert_eq!(own_path(Some(own)), Some(own));
        }
        for other in ["", "//evil.example", "/\\evil.example", "https://evil.example", "/a\r\nb", "account"] {
            assert_eq!(own_path(Some(other)), None, "{other:?}");
        }
        let long = "/a".repeat(LONGEST_PATH);
        assert_eq!(own_path(Some(long.as_str())), None);
    }
}
