use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::http::ApiFault;

/// The dashboard's own colours and elements, and the styles of these pages.
const STYLE: &str = concat!(
    include_str!("../../../web/style/00-tokens.css"),
    include_str!("../../../web/style/10-base.css"),
    include_str!("../../../web/style/50-forms.css"),
    include_str!("pages.css"),
);

/// The dashboard's icon. Without it, browsers ask for a file that is not there.
const ICON: &str = include_str!("../../../web/icon.uri");

/// A page with a title and content.
pub(super) fn page(title: &str, content: &Markup) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Diode" }
                link rel="icon" href=(ICON);
                style { (PreEscaped(STYLE)) }
            }
            body {
                header class="top" { a class="brand" href="/" { "Diode" } }
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
pub(super) fn refused(title: &str, fault: ApiFault, content: impl FnOnce(&Markup) -> Markup) -> Response {
    let message = html! { p class="notice bad" role="alert" { (fault.message()) } };
    let (mut head, _) = fault.into_response().into_parts();
    let (page, body) = page(title, &content(&message)).into_parts();
    head.headers.extend(page.headers);
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::new(body))
}

/// An input with its label.
pub(super) fn input(label: &str, name: &str, kind: &str, autocomplete: &str, value: &str) -> Markup {
    html! {
        label class="field" {
            span class="label" { (label) }
            input type=(kind) name=(name) value=(value) autocomplete=(autocomplete) required
                autocapitalize="none" spellcheck="false";
        }
    }
}

/// A number with its noun: `1 upload`, `2 uploads`.
pub(super) fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// An RFC 3339 time to the minute: `2026-11-25 10:57`.
pub(super) fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

/// The day of an RFC 3339 time.
pub(super) fn day(time: &str) -> &str {
    time.split('T').next().unwrap_or_default()
}
