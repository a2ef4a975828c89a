use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diode_api::{Account, ApiError, SignIn, WhoAsks};

use crate::accounts::{self, By, Caller, Peer};
use crate::app::App;
use crate::http::{ApiResult, NoParameters, StrictQuery, json_body};

/// Begins a session.
#[utoipa::path(
    post, path = "/session", tag = "accounts", request_body = SignIn,
    responses(
        (status = 200, body = Account, description = "The session's cookie comes with it"),
        (status = 400, body = ApiError),
        (status = 401, body = ApiError, description = "The name or the password is wrong"),
        (status = 403, body = ApiError, description = "Another site sent it, or the account is disabled"),
        (status = 429, body = ApiError),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    peer: Peer,
    _: StrictQuery<NoParameters>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Response> {
    let request: SignIn = json_body(&headers, body).await?;
    let (account, cookie) = accounts::sign_in(&app, &peer, &headers, request).await?;
    Ok(([(header::SET_COOKIE, cookie)], Json(account)).into_response())
}

/// Whose session or token it is that asks, if any. Unlike `/account`, it is no refusal if there is none.
#[utoipa::path(
    get, path = "/session", tag = "accounts",
    responses((status = 200, body = WhoAsks), (status = 401, body = ApiError, description = "The token does not work")),
)]
pub(crate) async fn get(_: StrictQuery<NoParameters>, caller: Option<Caller>) -> Json<WhoAsks> {
    Json(WhoAsks { account: caller.map(|caller| caller.account) })
}

/// Ends the session that asks, or revokes the token that asks.
#[utoipa::path(
    delete, path = "/session", tag = "accounts",
    responses(
        (status = 204, description = "Neither works any more"),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError),
    ),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    caller: Caller,
) -> ApiResult<Response> {
    match caller.by {
        By::Session(session) => {
            let cookie = accounts::sign_out(&app, &session).await?;
            Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
        }
        By::Token(token) => {
            app.backend.store.revoke_token(&caller.account.id, &token.id).await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
    }
}
