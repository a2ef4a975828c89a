use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use diode_api::{ApiError, DeviceCode, DeviceRequest, IssuedToken};

use crate::accounts::{self, Peer};
use crate::app::App;
use crate::http::{ApiResult, NoParameters, StrictQuery, json_body};

/// A program asks for a token, which its user allows at the address in the answer.
#[utoipa::path(
    post, path = "/devices", tag = "accounts", request_body = DeviceRequest,
    responses(
        (status = 201, body = DeviceCode),
        (status = 400, body = ApiError),
        (status = 429, body = ApiError),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    peer: Peer,
    _: StrictQuery<NoParameters>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<DeviceCode>)> {
    Ok((StatusCode::CREATED, Json(accounts::begin(&app, &peer, json_body(&headers, body).await?).await?)))
}

/// The program asks whether its user has allowed it. Until then the code of the error is
/// `authorization_pending`.
#[utoipa::path(
    post, path = "/devices/token", tag = "accounts", request_body = diode_api::DevicePoll,
    responses(
        (status = 200, body = IssuedToken, description = "Answered once"),
        (status = 400, body = ApiError, description = "Not yet, or not understood"),
        (status = 403, body = ApiError, description = "Refused, expired, or answered before"),
    ),
)]
pub(crate) async fn token(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<IssuedToken>> {
    Ok(Json(accounts::poll(&app, json_body(&headers, body).await?).await?))
}
