use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use diode_api::{ApiError, IssuedToken, NewToken, Token};
use diode_core::ids::TokenId;

use crate::accounts::{self, SignedIn};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, InPath, NoParameters, StrictQuery, json_body};

/// Makes an API token. Its secret is in this answer and nowhere else. A token cannot make a token.
#[utoipa::path(
    post, path = "/tokens", tag = "accounts", request_body = NewToken,
    responses(
        (status = 201, body = IssuedToken),
        (status = 400, body = ApiError),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError),
        (status = 422, body = ApiError, description = "There are too many"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    caller: SignedIn,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<IssuedToken>)> {
    let issued = accounts::issue(&app, &caller.account, json_body(&headers, body).await?).await?;
    Ok((StatusCode::CREATED, Json(issued)))
}

/// The tokens of the account, newest first.
#[utoipa::path(
    get, path = "/tokens", tag = "accounts",
    responses(
        (status = 200, body = Vec<Token>),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError),
    ),
)]
pub(crate) async fn list(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    caller: SignedIn,
) -> ApiResult<Json<Vec<Token>>> {
    Ok(Json(app.backend.store.tokens(&caller.account.id).await?))
}

/// Revokes a token of the account.
#[utoipa::path(
    delete, path = "/tokens/{id}", tag = "accounts", params(("id" = String, Path)),
    responses(
        (status = 204, description = "It does not work any more"),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError),
        (status = 404, body = ApiError, description = "The account has no such token"),
    ),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
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
