//! How a program gets a token with the help of a browser, after RFC 8628. The program asks for a code and shows
//! it. The program's user opens a page, compares the code and allows the program. The answer to the program's
//! next request is a token.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use diode_api::query::from_text;
use diode_api::{Account, DeviceCode, DevicePoll, DeviceRequest, IssuedToken, NewToken};
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::accounts::secrets::{Secret, check_scopes, digest_of, issue, random};
use crate::accounts::sessions::{CODES_OF_ACCOUNT, DEVICES_OF_ADDRESS};
use crate::accounts::{Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, StrictQuery, json_body};
use crate::limits::admit;
use crate::pages::{OwnForm, sign_in_first};
use crate::pages::{input, page, refused};
use crate::store::{DeviceAnswer, Now, WaitingDevice};

/// How long a code works: long enough for the program's user to make an account first.
const LASTS: Duration = Duration::from_secs(15 * 60);
/// How often a program should ask.
const INTERVAL: Duration = Duration::from_secs(2);
/// Consonants alone, so that no code spells a word. RFC 8628 suggests this set.
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";
/// 20⁸ codes: with the limits on tries, nobody guesses a code before it expires.
const CODE_LENGTH: usize = 8;

/// The program that shows a code. Any signed-in account may look it up.
pub(crate) async fn find(app: &App, account: &Account, code: &str) -> ApiResult<WaitingDevice> {
    admit(app, &format!("codes of {}", account.id), &CODES_OF_ACCOUNT).await?;
    let found = app.backend.store.waiting_device(&normal(code), Now::read()).await?;
    found.ok_or_else(unknown)
}

/// Stores the user's answer: allowed or refused.
pub(crate) async fn answer(
    app: &App,
    account: &Account,
    code: &str,
    allow: bool,
) -> ApiResult<WaitingDevice> {
    let device = find(app, account, code).await?;
    if allow {
        check_scopes(account, &device.scopes)?;
    }
    let by = allow.then_some(&account.id);
    if app.backend.store.answer_device(&device.user_code, by, Now::read()).await? {
        Ok(device)
    } else {
        Err(unknown())
    }
}

fn unknown() -> ApiFault {
    ApiFault::not_found("no program shows this code; it may have expired: run `diode login` again")
}

fn draw_code() -> Result<String, getrandom::Error> {
    // Bytes from 240 on are left out. The other 240 values are a multiple of 20, so all letters are equally
    // likely.
    let mut code = String::new();
    while code.len() < CODE_LENGTH + 1 {
        for byte in random()?.into_iter().filter(|byte| *byte < 240) {
            match code.len() {
                4 => code.push('-'),
                length if length > CODE_LENGTH => break,
                _ => {}
            }
            code.push(char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
        }
    }
    Ok(code)
}

/// The code as it was drawn, whatever case and separators its user typed.
fn normal(code: &str) -> String {
    let letters: Vec<char> = code
        .chars()
        .filter(char::is_ascii_alphabetic)
        .map(|c| c.to_ascii_uppercase())
        .take(CODE_LENGTH)
        .collect();
    let (first, second) = letters.split_at(letters.len().min(CODE_LENGTH / 2));
    format!("{}-{}", String::from_iter(first), String::from_iter(second))
}

/// A program asks for a token, which its user allows at the address in the answer.
#[utoipa::path(
    post, path = "/devices", tag = "accounts", request_body = DeviceRequest, operation_id = "create",
    responses(
        (status = 201, body = DeviceCode),
        (status = 429),
    ),
)]
pub(crate) async fn ask_for_token(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<DeviceCode>)> {
    let request: DeviceRequest = json_body(&headers, body).await?;
    request.check()?;
    admit(&app, &format!("devices from {}", peer.0), &DEVICES_OF_ADDRESS).await?;
    let secret = Secret::draw("").map_err(ApiFault::internal)?;
    let user_code = draw_code().map_err(ApiFault::internal)?;
    let now = Now::read();
    let device = WaitingDevice {
        secret: secret.digest(),
        user_code: user_code.clone(),
        name: request.name,
        scopes: request.scopes,
    };
    app.backend.store.add_device(&device, now, now.lease_end(LASTS)).await?;
    let code = DeviceCode {
        device_code: secret.into_text(),
        verification_uri: format!("{}/device?code={user_code}", app.policy().public_url),
        user_code,
        expires_in: LASTS.as_secs(),
        interval: INTERVAL.as_secs(),
    };
    Ok((StatusCode::CREATED, Json(code)))
}

/// The program asks whether its user has allowed it. Until then the code of the error is
/// `authorization_pending`.
#[utoipa::path(
    post, path = "/devices/token", tag = "accounts", request_body = DevicePoll, operation_id = "token",
    responses(
        (status = 200, body = IssuedToken, description = "Answered once"),
        (status = 400, description = "Not yet, or not understood"),
        (status = 403, description = "Refused, expired, or answered before"),
    ),
)]
pub(crate) async fn token_of_device(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<IssuedToken>> {
    let request: DevicePoll = json_body(&headers, body).await?;
    let secret = digest_of(&request.device_code);
    match app.backend.store.poll_device(&secret, Now::read()).await? {
        DeviceAnswer::Waiting => Err(ApiFault::authorization_pending()),
        DeviceAnswer::Unknown => Err(ApiFault::forbidden(
            "this request was refused, has expired or has been answered; run `diode login` again",
        )),
        DeviceAnswer::Allowed(account, device) => {
            let token = NewToken { name: device.name, scopes: device.scopes, days: Some(NewToken::MAX_DAYS) };
            Ok(Json(issue(&app, &account, token).await?))
        }
    }
}

const ALLOW: &str = "Allow a program";

#[derive(Deserialize, IntoParams)]
pub(super) struct Code {
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<String>)]
    code: Option<String>,
}

pub(super) async fn show_device(
    State(app): State<App>,
    StrictQuery(Code { code }): StrictQuery<Code>,
    caller: ApiResult<SignedIn>,
) -> Response {
    let Ok(SignedIn { account, .. }) = caller else {
        let letters = |c: &char| c.is_ascii_alphabetic() || *c == '-';
        let code = code.map(|code| code.chars().filter(letters).collect::<String>());
        return sign_in_first(&code.map_or("/device".to_owned(), |code| format!("/device?code={code}")));
    };
    let Some(code) = code else { return page(ALLOW, &ask_code(None)) };
    match find(&app, &account, &code).await {
        Ok(device) => page(ALLOW, &ask(&account, &device)),
        Err(fault) => refused(ALLOW, fault, |said| ask_code(Some(said))),
    }
}

#[derive(Deserialize)]
pub(super) struct DeviceFields {
    code: String,
    answer: String,
}

pub(super) async fn submit_device(
    State(app): State<App>,
    SignedIn { account, .. }: SignedIn,
    OwnForm(DeviceFields { code, answer: said }): OwnForm<DeviceFields>,
) -> ApiResult<Response> {
    let allow = match said.as_str() {
        "allow" => true,
        "refuse" => false,
        _ => return Err(ApiFault::invalid("answer: expected allow or refuse")),
    };
    Ok(match answer(&app, &account, &code, allow).await {
        Ok(device) if allow => page(
            ALLOW,
            &html! {
                p class="card" { strong { (device.name) } " has its token now. You can close this page. " a href="/account" { "Your tokens" } }
            },
        ),
        Ok(device) => page(
            ALLOW,
            &html! {
                p class="card" { strong { (device.name) } " was refused. It gets no token." }
            },
        ),
        Err(fault) => refused(ALLOW, fault, |said| ask_code(Some(said))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_however_they_are_typed() {
        for _ in 0..100 {
            let code = draw_code().unwrap();
            assert_eq!((code.len(), code.find('-')), (9, Some(4)), "{code}");
            assert_eq!(normal(&code), code);
            assert_eq!(normal(&code.to_lowercase().replace('-', " ")), code);
        }
        assert_eq!(normal(""), "-");
        assert_eq!(normal("é<script>"), "SCRI-PT");
    }
}
