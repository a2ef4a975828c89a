//! The terms of contributing: the page, and the box by which people agree.

use axum::response::Response;
use diode_api::{Account, DATA_LICENCE, TERMS_VERSION};
use maud::{Markup, html};

use super::layout::page;
use crate::accounts::TERMS_TEXT;
use crate::http::{NoParameters, StrictQuery};

pub(super) async fn show(_: StrictQuery<NoParameters>) -> Response {
    let mut paragraphs = TERMS_TEXT.split("\n\n").map(str::trim);
    let title = paragraphs.next().unwrap_or_default().trim_start_matches("# ");
    let content = html! {
        div class="card" { @for paragraph in paragraphs { p { (paragraph) } } }
        p { a href="/account" { "Your account" } " · " a href="/contribute" { "Contribute" } }
    };
    page(title, &content)
}

/// The box to tick. Its value is the version that the page shows.
pub(super) fn agreement(is_ticked: bool) -> Markup {
    html! {
        label {
            input type="checkbox" name="terms" value=(TERMS_VERSION) checked[is_ticked];
            " I agree to the " a href="/terms" target="_blank" { "terms of contributing" }
            ", version " (TERMS_VERSION) ": what I send is given under " (DATA_LICENCE)
            ". Needed before you contribute; you can also agree later."
        }
    }
}

/// What an owner has agreed to, or can agree to.
pub(super) fn section(account: &Account) -> Markup {
    let agreed = account.terms.as_ref();
    let day = |time: &str| time.split('T').next().unwrap_or_default().to_owned();
    html! {
        h2 { "Terms of contributing" }
        form class="card" method="post" action="/account/terms" {
            @if let Some(terms) = agreed {
                p {
                    "You agreed to version " (terms.version) " of the " a href="/terms" { "terms of contributing" }
                    " on " (day(&terms.agreed_at)) "."
                }
            }
            @if agreed.is_none_or(|terms| terms.version < TERMS_VERSION) {
                p {
                    "What you send is given under " (DATA_LICENCE) ". Read the "
                    a href="/terms" { "terms of contributing" } ", version " (TERMS_VERSION) "."
                }
                input type="hidden" name="terms" value=(TERMS_VERSION);
                button class="button" { "I agree" }
            }
        }
    }
}
