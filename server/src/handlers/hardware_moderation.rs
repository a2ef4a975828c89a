//! What administrators decide about hardware.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use diode_api::{ApiError, HardwareConfirmation, HardwareMerge, HardwareMerged, HardwareSummary};

use crate::accounts::{Admin, Authorized};
use crate::app::App;
use crate::confirming::{NotConfirmed, confirm};
use crate::http::{ApiFault, ApiResult, NoParameters, StrictQuery, json_body, lookup};
use crate::store::{NotMerged, Now};

/// Vouches for the facts of a hardware that is in no catalogue: times are judged by them from then on.
#[utoipa::path(
    post, path = "/hardware-confirmations", tag = "moderation", request_body = HardwareConfirmation,
    responses(
        (status = 200, body = HardwareSummary),
        (status = 400, body = ApiError),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError, description = "Not an administrator, or a token without the scope"),
        (status = 404, body = ApiError, description = "No such hardware or upload"),
        (status = 422, body = ApiError, description = "Nobody has described it"),
    ),
)]
pub(crate) async fn confirm_hardware(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<HardwareSummary>> {
    let request: HardwareConfirmation = json_body(&headers, body).await?;
    lookup::<HardwareSummary>(&app, request.hardware.as_str()).await?;
    confirm(&app.backend, &request, admin.who()).await?;
    Ok(Json(lookup(&app, request.hardware.as_str()).await?))
}

impl From<NotConfirmed> for ApiFault {
    fn from(refused: NotConfirmed) -> Self {
        let words = refused.to_string();
        match refused {
            NotConfirmed::NoUpload(_) => Self::not_found(words),
            NotConfirmed::NotDescribed(..) | NotConfirmed::NoFacts(_) => Self::refused(words),
            NotConfirmed::Store(error) => error.into(),
            NotConfirmed::Blob(error) => error.into(),
            NotConfirmed::Format(error) => Self::internal(error),
            NotConfirmed::Task(error) => error.into(),
        }
    }
}

/// Makes one kind of hardware a part of another that it turned out to be: what was measured on it is the other's from
/// then on, and so is what comes later under its name. It cannot be taken back.
#[utoipa::path(
    post, path = "/hardware-merges", tag = "moderation", request_body = HardwareMerge,
    responses(
        (status = 200, body = HardwareMerged),
        (status = 400, body = ApiError),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError, description = "Not an administrator, or a token without the scope"),
        (status = 404, body = ApiError, description = "No such hardware"),
        (status = 409, body = ApiError, description = "Jobs about it wait or run"),
        (status = 422, body = ApiError, description = "They cannot be one"),
    ),
)]
pub(crate) async fn merge(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<HardwareMerged>> {
    let request: HardwareMerge = json_body(&headers, body).await?;
    Ok(Json(HardwareMerged { solutions: merged(&app, &request, admin.who()).await? }))
}

/// Merges one hardware into another. Returns how many solutions have moved.
pub(crate) async fn merged(app: &App, request: &HardwareMerge, who: &str) -> ApiResult<u64> {
    let done = app.backend.store.merge_hardware(request, who, Now::read()).await?;
    done.map_err(|refused| {
        let words = refused.explain(request);
        match refused {
            NotMerged::Unknown(_) => ApiFault::not_found(words),
            NotMerged::Busy(_) => ApiFault::conflict(words),
            NotMerged::Same | NotMerged::Listed | NotMerged::Simulated => ApiFault::refused(words),
        }
    })
}
