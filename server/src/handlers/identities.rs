use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use diode_api::{Account, ApiError, LinkedIdentity, UnlinkIdentity};
use diode_core::ids::AccountName;

use crate::accounts::{Admin, Authorized};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, InPath, NoParameters, StrictQuery, json_body};
use crate::store::Now;

/// By which identities somebody can sign in to an account, beside its password.
#[utoipa::path(
    get, path = "/accounts/{name}/identities", tag = "accounts", params(("name" = String, Path)),
    responses(
        (status = 200, body = Vec<LinkedIdentity>),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError, description = "Not an administrator, or a token without the scope"),
        (status = 404, body = ApiError, description = "No such account"),
    ),
)]
pub(crate) async fn list(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
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
        (status = 400, body = ApiError),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError, description = "Not an administrator, or a token without the scope"),
        (status = 404, body = ApiError, description = "No such account, or it is not linked with this issuer"),
        (status = 415, body = ApiError, description = "Not said to be JSON"),
    ),
)]
pub(crate) async fn unlink(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    admin: Authorized<Admin>,
    InPath(name): InPath<String>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<StatusCode> {
    let name = named(&app, &name).await?.name;
    let UnlinkIdentity { issuer, reason } = json_body(&headers, body).await?;
    if app.backend.store.take_identity(&name, &issuer, &reason, admin.who(), Now::read()).await? {
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
