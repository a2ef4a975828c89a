use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use diode_api::{Account, Agree, ApiError, DeleteAccount, NewPassword, SignUp};

use crate::accounts::{self, Caller, Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiResult, NoParameters, StrictQuery, json_body};

/// Makes an account and begins a session.
#[utoipa::path(
    post, path = "/account", tag = "accounts", request_body = SignUp,
    responses(
        (status = 201, body = Account, description = "The session's cookie comes with it"),
        (status = 400, body = ApiError),
        (status = 403, body = ApiError, description = "This server asks for an invitation, or takes nobody"),
        (status = 409, body = ApiError, description = "The name is taken"),
        (status = 429, body = ApiError),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    peer: Peer,
    _: StrictQuery<NoParameters>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, [(HeaderName, HeaderValue); 1], Json<Account>)> {
    let (account, cookie) =
        accounts::sign_up(&app, &peer, &headers, json_body(&headers, body).await?).await?;
    Ok((StatusCode::CREATED, [(header::SET_COOKIE, cookie)], Json(account)))
}

/// Whose session or token it is that asks.
#[utoipa::path(
    get, path = "/account", tag = "accounts",
    responses((status = 200, body = Account), (status = 401, body = ApiError)),
)]
pub(crate) async fn get(_: StrictQuery<NoParameters>, caller: Caller) -> Json<Account> {
    Json(caller.account)
}

/// Changes the password. All other sessions end; tokens go on working.
#[utoipa::path(
    put, path = "/account/password", tag = "accounts", request_body = NewPassword,
    responses(
        (status = 204, description = "Changed"),
        (status = 400, body = ApiError),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError),
        (status = 429, body = ApiError),
    ),
)]
pub(crate) async fn change_password(
    State(app): State<App>,
    peer: Peer,
    _: StrictQuery<NoParameters>,
    caller: SignedIn,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    accounts::change_password(&app, &peer, &caller, json_body(&headers, body).await?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Agrees to the terms of contributing that are in force.
#[utoipa::path(
    put, path = "/account/terms", tag = "accounts", request_body = Agree,
    responses(
        (status = 204, description = "Noted, with the time"),
        (status = 400, body = ApiError),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError, description = "A token that is for neither upload nor agent"),
        (status = 409, body = ApiError, description = "Another version is in force: `terms_changed`"),
    ),
)]
pub(crate) async fn agree(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    accounts::agree(&app, &caller, json_body(&headers, body).await?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Deletes the account for good, with or without its uploads.
#[utoipa::path(
    delete, path = "/account", tag = "accounts", request_body = DeleteAccount,
    responses(
        (status = 204, description = "Deleted"),
        (status = 400, body = ApiError),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError),
        (status = 429, body = ApiError),
    ),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    peer: Peer,
    _: StrictQuery<NoParameters>,
    caller: SignedIn,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, [(HeaderName, HeaderValue); 1])> {
    let cookie = accounts::delete(&app, &peer, &caller, json_body(&headers, body).await?).await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]))
}
