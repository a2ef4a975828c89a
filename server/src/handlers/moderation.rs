use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use diode_api::{ApiError, LogEntry, Moderated, Moderation, NewReport, Report};

use crate::accounts::{self, Admin, Authorized, Peer};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, NoParameters, StrictQuery, json_body};
use crate::store::Now;

/// How many entries are listed: more than anybody reads at once.
const MAX_LISTED: u32 = 500;

/// Quarantines, restores or deletes an upload, or all of a contributor. Boards, tables and datasets follow;
/// models that were trained on it say so.
#[utoipa::path(
    post, path = "/moderation", tag = "moderation", request_body = Moderation,
    responses(
        (status = 200, body = Moderated),
        (status = 400, body = ApiError),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError, description = "Not an administrator, or a token without the scope"),
        (status = 404, body = ApiError, description = "No such upload or account"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<Moderated>> {
    let request: Moderation = json_body(&headers, body).await?;
    let done = app.backend.store.moderate(&request, admin.who(), Now::read()).await?;
    let done = done.ok_or_else(|| {
        ApiFault::not_found(format!("no {}; /api/v1/uploads lists the uploads", request.subject))
    })?;
    app.backend.forget(done.files).await?;
    Ok(Json(Moderated { uploads: done.uploads }))
}

/// What administrators did, newest first; the newest 500.
#[utoipa::path(
    get, path = "/moderation", tag = "moderation",
    responses(
        (status = 200, body = Vec<LogEntry>),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError),
    ),
)]
pub(crate) async fn list(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    _: Authorized<Admin>,
) -> ApiResult<Json<Vec<LogEntry>>> {
    Ok(Json(app.backend.store.moderation_log(MAX_LISTED).await?))
}

/// Tells the administrators that something is wrong with an upload.
#[utoipa::path(
    post, path = "/reports", tag = "moderation", request_body = NewReport,
    responses(
        (status = 204, description = "Noted"),
        (status = 400, body = ApiError),
        (status = 401, body = ApiError, description = "Reports need an account where uploads do"),
        (status = 403, body = ApiError),
        (status = 404, body = ApiError, description = "No such upload"),
        (status = 429, body = ApiError, description = "More than 20 within a day"),
    ),
)]
pub(crate) async fn report(
    State(app): State<App>,
    peer: Peer,
    _: StrictQuery<NoParameters>,
    Authorized { account, .. }: Authorized<accounts::Report>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    let report: NewReport = json_body(&headers, body).await?;
    accounts::admit_report(&app, account.as_ref(), &peer).await?;
    let whose = account.as_ref().map(|account| &account.id);
    if app.backend.store.add_report(&report, whose, Now::read()).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiFault::not_found(format!("no upload `{}`; /api/v1/uploads lists the uploads", report.upload)))
    }
}

/// What was reported, newest first; the newest 500.
#[utoipa::path(
    get, path = "/reports", tag = "moderation",
    responses(
        (status = 200, body = Vec<Report>),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError),
    ),
)]
pub(crate) async fn reports(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    _: Authorized<Admin>,
) -> ApiResult<Json<Vec<Report>>> {
    Ok(Json(app.backend.store.reports(MAX_LISTED).await?))
}
