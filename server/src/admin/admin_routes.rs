//! What scripts of administrators do with uploads, and reports to administrators.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use diode_api::{Moderated, Moderation, NewReport};

use super::acts::moderate;
use crate::accounts::{self, Admin, Authorized, Peer};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, json_body};
use crate::store::Now;

/// Quarantines, restores or deletes an upload, or all of a contributor. Boards, tables and datasets follow;
/// models that were trained on it say so.
#[utoipa::path(
    post, path = "/moderation", tag = "moderation", request_body = Moderation, operation_id = "create",
    responses(
        (status = 200, body = Moderated),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 404, description = "No such upload or account"),
    ),
)]
pub(crate) async fn act(
    State(app): State<App>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<Moderated>> {
    let request: Moderation = json_body(&headers, body).await?;
    Ok(Json(moderate(&app.backend, &request, admin.by()?).await?))
}

/// Tells the administrators that something is wrong with an upload.
#[utoipa::path(
    post, path = "/reports", tag = "moderation", request_body = NewReport,
    responses(
        (status = 204, description = "Noted"),
        (status = 401, description = "Reports need an account where uploads do"),
        (status = 403),
        (status = 404, description = "No such upload"),
        (status = 429, description = "More than 20 within a day"),
    ),
)]
pub(crate) async fn report(
    State(app): State<App>,
    peer: Peer,
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
