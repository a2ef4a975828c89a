//! The pages of administrators.

pub(super) mod accounts;
pub(super) mod hardware;
pub(super) mod packs;
pub(super) mod trainings;
pub(super) mod uploads;

use axum::extract::State;
use axum::response::Response;
use diode_api::Account;
use maud::{Markup, html};

use super::form::sign_in_first;
use super::layout::{minute, page, refused};
use crate::accounts::SignedIn;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, NoParameters, StrictQuery};

const TITLE: &str = "Look after this server";

/// The most rows of each list, and the most entries of the log.
const MAX_SHOWN: u32 = 100;

pub(super) async fn show(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    caller: ApiResult<SignedIn>,
) -> ApiResult<Response> {
    if let Err(answer) = administrator(TITLE, "/admin", caller) {
        return Ok(answer);
    }
    let log = app.backend.store.moderation_log(MAX_SHOWN).await?;
    let waiting = app.backend.store.contributions(&super::models::open(), MAX_SHOWN).await?.len();
    Ok(page(
        TITLE,
        &html! {
            ul {
                li { a href="/admin/uploads" { "Uploads and reports" } }
                li { a href="/admin/hardware" { "Hardware to confirm or merge" } }
                li { a href="/account/models" { "Contributed models" } @if waiting > 0 { ": " (waiting) " to decide" } }
                li { a href="/admin/trainings" { "Trainings and published models" } }
                li { a href="/admin/packs" { "Kernel packs" } }
                li { a href="/admin/accounts" { "Accounts" } }
            }
            h2 { "The log" }
            @if log.is_empty() { p { "Nothing has been done yet." } }
            @for entry in &log {
                p { strong { (entry.what) } br; (minute(&entry.at)) " by " (entry.who) ": " (entry.why) }
            }
        },
    ))
}

/// The account of whoever opens a page, if it is an administrator's account. Otherwise the response to send
/// instead.
#[expect(clippy::result_large_err, reason = "it is the answer")]
fn administrator(title: &str, path: &str, caller: ApiResult<SignedIn>) -> Result<Account, Response> {
    match caller {
        Ok(SignedIn { account, .. }) if account.admin => Ok(account),
        Ok(_) => Err(refused(title, only_administrators(), Clone::clone)),
        Err(_) => Err(sign_in_first(path)),
    }
}

/// The account of whoever sends a form. Fails unless it is an administrator's.
fn checked(caller: SignedIn) -> ApiResult<Account> {
    if caller.account.admin { Ok(caller.account) } else { Err(only_administrators()) }
}

fn only_administrators() -> ApiFault {
    ApiFault::forbidden("only an administrator of this server may do this")
}

/// A page that is shown again with the result of a form.
fn answered(title: &str, outcome: ApiResult<Markup>, content: impl FnOnce(&Markup) -> Markup) -> Response {
    match outcome {
        Ok(message) => page(title, &content(&message)),
        Err(fault) => refused(title, fault, content),
    }
}

fn done(words: &str) -> Markup {
    html! { p class="notice" role="status" { (words) } }
}

fn back() -> Markup {
    html! { p { a href="/admin" { "Look after this server" } } }
}
