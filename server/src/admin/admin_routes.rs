//! The routes of administrators, and of reports to them.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use diode_api::{
    Account, HardwareConfirmation, HardwareMerge, HardwareMerged, HardwareSummary, Invitation,
    LinkedIdentity, LogEntry, Moderated, Moderation, NewReport, Report, UnlinkIdentity,
};
use diode_core::ids::AccountName;

use super::acts::{merge, moderate};
use crate::accounts::{self, Admin, Authorized, Peer, invitation_link};
use crate::admin::acts::confirm;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, InPath, json_body, lookup};
use crate::store::Now;

/// How many entries are listed: more than anybody reads at once.
const MAX_LISTED: u32 = 500;

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

/// What administrators did, newest first; the newest 500.
#[utoipa::path(
    get, path = "/moderation", tag = "moderation", operation_id = "list",
    responses(
        (status = 200, body = Vec<LogEntry>),
        (status = 401),
        (status = 403),
    ),
)]
pub(crate) async fn log(State(app): State<App>, _: Authorized<Admin>) -> ApiResult<Json<Vec<LogEntry>>> {
    Ok(Json(app.backend.store.moderation_log(MAX_LISTED).await?))
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

/// What was reported, newest first; the newest 500.
#[utoipa::path(
    get, path = "/reports", tag = "moderation",
    responses(
        (status = 200, body = Vec<Report>),
        (status = 401),
        (status = 403),
    ),
)]
pub(crate) async fn reports(State(app): State<App>, _: Authorized<Admin>) -> ApiResult<Json<Vec<Report>>> {
    Ok(Json(app.backend.store.reports(MAX_LISTED).await?))
}

/// Vouches for the facts of a hardware that is in no catalogue: times are judged by them from then on.
#[utoipa::path(
    post, path = "/hardware-confirmations", tag = "moderation", request_body = HardwareConfirmation,
    responses(
        (status = 200, body = HardwareSummary),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 404, description = "No such hardware or upload"),
        (status = 422, description = "Nobody has described it"),
    ),
)]
pub(crate) async fn confirm_hardware(
    State(app): State<App>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<HardwareSummary>> {
    let request: HardwareConfirmation = json_body(&headers, body).await?;
    lookup::<HardwareSummary>(&app, request.hardware.as_str()).await?;
    confirm(&app.backend, &request, admin.by()?.who()).await?;
    Ok(Json(lookup(&app, request.hardware.as_str()).await?))
}

/// Makes one kind of hardware a part of another that it turned out to be: what was measured on it is the other's from
/// then on, and so is what comes later under its name. It cannot be taken back.
#[utoipa::path(
    post, path = "/hardware-merges", tag = "moderation", request_body = HardwareMerge, operation_id = "merge",
    responses(
        (status = 200, body = HardwareMerged),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 404, description = "No such hardware"),
        (status = 409, description = "Jobs about it wait or run"),
        (status = 422, description = "They cannot be one"),
    ),
)]
pub(crate) async fn merge_hardware(
    State(app): State<App>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<HardwareMerged>> {
    let request: HardwareMerge = json_body(&headers, body).await?;
    Ok(Json(HardwareMerged { solutions: merge(&app.backend, &request, admin.by()?).await? }))
}

/// Makes a link by which one account can be made, also where sign-ups are not open.
#[utoipa::path(
    post, path = "/invitations", tag = "accounts", operation_id = "create",
    responses(
        (status = 201, body = Invitation),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
    ),
)]
pub(crate) async fn invite(
    State(app): State<App>,
    admin: Authorized<Admin>,
) -> ApiResult<(StatusCode, Json<Invitation>)> {
    let store = app.backend.store.as_ref();
    let link = invitation_link(store, app.policy()).await.map_err(ApiFault::internal)?;
    admin.by()?.write_down(store, "make an invitation").await?;
    let invitation = Invitation { link: link.url, expires_at: link.expires.to_string() };
    Ok((StatusCode::CREATED, Json(invitation)))
}

/// By which identities somebody can sign in to an account, beside its password.
#[utoipa::path(
    get, path = "/accounts/{name}/identities", tag = "accounts", params(("name" = String, Path)), operation_id = "list",
    responses(
        (status = 200, body = Vec<LinkedIdentity>),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 404, description = "No such account"),
    ),
)]
pub(crate) async fn identities(
    State(app): State<App>,
    _: Authorized<Admin>,
    InPath(name): InPath<String>,
) -> ApiResult<Json<Vec<LinkedIdentity>>> {
    let account = named(&app, &name).await?;
    Ok(Json(app.backend.store.identities(&account.id).await?))
}

/// Takes an identity off an account, for good, and ends the account's sessions. If it was the only way in,
/// `diode-server admin reset` makes another.
#[utoipa::path(
    delete, path = "/accounts/{name}/identities", tag = "accounts", params(("name" = String, Path)),
    request_body = UnlinkIdentity,
    responses(
        (status = 204, description = "It opens the account no more"),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 404, description = "No such account, or it is not linked with this issuer"),
        (status = 415, description = "Not said to be JSON"),
    ),
)]
pub(crate) async fn unlink(
    State(app): State<App>,
    admin: Authorized<Admin>,
    InPath(name): InPath<String>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    let name = named(&app, &name).await?.name;
    let UnlinkIdentity { issuer, reason } = json_body(&headers, body).await?;
    if app.backend.store.remove_identity(&name, &issuer, &reason, admin.by()?.who(), Now::read()).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiFault::not_found(format!(
            "`{name}` is not linked with `{issuer}`; /api/v1/accounts/{name}/identities lists what it is linked with"
        )))
    }
}

async fn named(app: &App, name: &str) -> ApiResult<Account> {
    let parsed: AccountName = name.parse().map_err(|error| ApiFault::not_found(format!("{error}")))?;
    let found = app.backend.store.credentials(&parsed).await?;
    let found = found.ok_or_else(|| ApiFault::not_found(format!("no account `{name}`")))?;
    Ok(found.account)
}
