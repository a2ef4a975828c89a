use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diode_api::{Account, Agree, IssuedToken, NewToken, SignIn, SignUp, Token, WhoAsks};
use diode_core::ids::TokenId;

use crate::accounts;
use crate::accounts::{By, Caller, Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, InPath, json_body};

/// Makes an account and begins a session.
#[utoipa::path(
    post, path = "/account", tag = "accounts", request_body = SignUp, operation_id = "create",
    responses(
        (status = 201, body = Account, description = "The session's cookie comes with it"),
        (status = 403, description = "This server asks for an invitation, or takes nobody"),
        (status = 409, description = "The name is taken"),
        (status = 429),
    ),
)]
pub(crate) async fn make_account(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, [(HeaderName, HeaderValue); 1], Json<Account>)> {
    let (account, cookie) =
        accounts::sign_up(&app, &peer, &headers, json_body(&headers, body).await?).await?;
    Ok((StatusCode::CREATED, [(header::SET_COOKIE, cookie)], Json(account)))
}

/// Whose session or token it is that asks.
#[utoipa::path(
    get, path = "/account", tag = "accounts", operation_id = "get",
    responses((status = 200, body = Account), (status = 401)),
)]
pub(crate) async fn show_account_of_caller(caller: Caller) -> Json<Account> {
    Json(caller.account)
}

/// Agrees to the terms of contributing that are in force.
#[utoipa::path(
    put, path = "/account/terms", tag = "accounts", request_body = Agree, operation_id = "agree",
    responses(
        (status = 204, description = "Noted, with the time"),
        (status = 401),
        (status = 403, description = "A token that is for neither upload nor agent"),
        (status = 409, description = "Another version is in force: `terms_changed`"),
    ),
)]
pub(crate) async fn agree_of_caller(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    accounts::agree(&app, &caller, json_body(&headers, body).await?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Begins a session.
#[utoipa::path(
    post, path = "/session", tag = "accounts", request_body = SignIn, operation_id = "create",
    responses(
        (status = 200, body = Account, description = "The session's cookie comes with it"),
        (status = 401, description = "The name or the password is wrong"),
        (status = 403, description = "Another site sent it, or the account is disabled"),
        (status = 429),
    ),
)]
pub(crate) async fn begin_session_by_password(
    State(app): State<App>,
    peer: Peer,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Response> {
    let request: SignIn = json_body(&headers, body).await?;
    let (account, cookie) = accounts::sign_in(&app, &peer, &headers, request).await?;
    Ok(([(header::SET_COOKIE, cookie)], Json(account)).into_response())
}

/// Whose session or token it is that asks, if any. Unlike `/account`, it is no refusal if there is none.
#[utoipa::path(
    get, path = "/session", tag = "accounts", operation_id = "get",
    responses((status = 200, body = WhoAsks), (status = 401, description = "The token does not work")),
)]
pub(crate) async fn who_asks(caller: Option<Caller>) -> Json<WhoAsks> {
    Json(WhoAsks { account: caller.map(|caller| caller.account) })
}

/// Ends the session that asks, or revokes the token that asks.
#[utoipa::path(
    delete, path = "/session", tag = "accounts", operation_id = "delete",
    responses(
        (status = 204, description = "Neither works any more"),
        (status = 401),
        (status = 403),
    ),
)]
pub(crate) async fn end_session(State(app): State<App>, caller: Caller) -> ApiResult<Response> {
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

/// Makes an API token. Its secret is in this answer and nowhere else. A token cannot make a token.
#[utoipa::path(
    post, path = "/tokens", tag = "accounts", request_body = NewToken, operation_id = "create",
    responses(
        (status = 201, body = IssuedToken),
        (status = 401),
        (status = 403),
        (status = 422, description = "There are too many"),
    ),
)]
pub(crate) async fn make_token(
    State(app): State<App>,
    caller: SignedIn,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<IssuedToken>)> {
    let issued = accounts::issue(&app, &caller.account, json_body(&headers, body).await?).await?;
    Ok((StatusCode::CREATED, Json(issued)))
}

/// The tokens of the account, newest first.
#[utoipa::path(
    get, path = "/tokens", tag = "accounts", operation_id = "list",
    responses(
        (status = 200, body = Vec<Token>),
        (status = 401),
        (status = 403),
    ),
)]
pub(crate) async fn list_tokens(State(app): State<App>, caller: SignedIn) -> ApiResult<Json<Vec<Token>>> {
    Ok(Json(app.backend.store.tokens(&caller.account.id).await?))
}

/// Revokes a token of the account.
#[utoipa::path(
    delete, path = "/tokens/{id}", tag = "accounts", params(("id" = String, Path)), operation_id = "delete",
    responses(
        (status = 204, description = "It does not work any more"),
        (status = 401),
        (status = 403),
        (status = 404, description = "The account has no such token"),
    ),
)]
pub(crate) async fn revoke_token(
    State(app): State<App>,
    caller: SignedIn,
    InPath(id): InPath<String>,
) -> ApiResult<StatusCode> {
    let unknown = || ApiFault::not_found("the account has no such token; /api/v1/tokens lists them");
    let id: TokenId = id.parse().map_err(|_| unknown())?;
    if app.backend.store.revoke_token(&caller.account.id, &id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(unknown())
    }
}
