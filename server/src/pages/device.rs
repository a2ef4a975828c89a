//! Allows a program that waits for a token.

use axum::extract::State;
use axum::response::Response;
use diode_api::Account;
use diode_api::query::from_text;
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use super::form::{OwnForm, sign_in_first};
use super::layout::{input, page, refused};
use crate::accounts::{self, SignedIn};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, StrictQuery};
use crate::store::WaitingDevice;

const TITLE: &str = "Allow a program";

#[derive(Deserialize, IntoParams)]
pub(super) struct Code {
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<String>)]
    code: Option<String>,
}

pub(super) async fn show(
    State(app): State<App>,
    StrictQuery(Code { code }): StrictQuery<Code>,
    caller: ApiResult<SignedIn>,
) -> Response {
    let Ok(SignedIn { account, .. }) = caller else {
        let letters = |c: &char| c.is_ascii_alphabetic() || *c == '-';
        let code = code.map(|code| code.chars().filter(letters).collect::<String>());
        return sign_in_first(&code.map_or("/device".to_owned(), |code| format!("/device?code={code}")));
    };
    let Some(code) = code else { return page(TITLE, &ask_code(None)) };
    match accounts::find(&app, &account, &code).await {
        Ok(device) => page(TITLE, &ask(&account, &device)),
        Err(fault) => refused(TITLE, fault, |said| ask_code(Some(said))),
    }
}

#[derive(Deserialize)]
pub(super) struct Fields {
    code: String,
    answer: String,
}

pub(super) async fn submit(
    State(app): State<App>,
    SignedIn { account, .. }: SignedIn,
    OwnForm(Fields { code, answer }): OwnForm<Fields>,
) -> ApiResult<Response> {
    let allow = match answer.as_str() {
        "allow" => true,
        "refuse" => false,
        _ => return Err(ApiFault::invalid("answer: expected allow or refuse")),
    };
    Ok(match accounts::answer(&app, &account, &code, allow).await {
        Ok(device) if allow => page(
            TITLE,
            &html! {
                p class="card" { strong { (device.name) } " has its token now. You can close this page. " a href="/account" { "Your tokens" } }
            },
        ),
        Ok(device) => page(
            TITLE,
            &html! {
                p class="card" { strong { (device.name) } " was refused. It gets no token." }
            },
        ),
        Err(fault) => refused(TITLE, fault, |said| ask_code(Some(said))),
    })
}

fn ask_code(said: Option<&Markup>) -> Markup {
    html! {
        form class="card" method="get" action="/device" {
            @if let Some(said) = said { (said) }
            p { "A program such as " code { "diode login" } " shows a code. Type it here." }
            (input("Code", "code", "text", "off", ""))
            button class="button primary" { "Go on" }
        }
    }
}

fn ask(account: &Account, device: &WaitingDevice) -> Markup {
    let scopes: Vec<_> = device.scopes.iter().map(|scope| scope.as_str()).collect();
    html! {
        form class="card" method="post" action="/device" {
            p class="code" { (device.user_code) }
            p {
                "A program that calls itself " strong { (device.name) } " asks for a token of your account "
                strong { (account.name) } " with the scopes " strong { (scopes.join(", ")) }
                ". The token works for a year, unless you revoke it."
            }
            p { "Allow it only if you started it yourself just now and it shows the same code." }
            input type="hidden" name="code" value=(device.user_code);
            div class="row" {
                button class="button primary" name="answer" value="allow" { "Allow" }
                button class="button" name="answer" value="refuse" { "Refuse" }
            }
        }
    }
}
