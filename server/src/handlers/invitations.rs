use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use diode_api::{ApiError, Invitation};

use crate::accounts::{Admin, Authorized, invitation_link, write_down};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, NoParameters, StrictQuery};

/// Makes a link by which one account can be made, also where sign-ups are not open.
#[utoipa::path(
    post, path = "/invitations", tag = "accounts",
    responses(
        (status = 201, body = Invitation),
        (status = 401, body = ApiError),
        (status = 403, body = ApiError, description = "Not an administrator, or a token without the scope"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    Authorized { account, .. }: Authorized<Admin>,
) -> ApiResult<(StatusCode, Json<Invitation>)> {
    let store = app.backend.store.as_ref();
    let link = invitation_link(store, app.policy()).await.map_err(ApiFault::internal)?;
    write_down(&app, account.as_ref(), "make an invitation").await?;
    let invitation = Invitation { link: link.url, expires_at: link.expires.to_string() };
    Ok((StatusCode::CREATED, Json(invitation)))
}
