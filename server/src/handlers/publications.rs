use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use diode_api::{ModelSummary, NewPublication, Publication};
use diode_core::hardware::Hardware;

use crate::accounts::{Admin, Authorized};
use crate::admin::acts::publish;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, FromPath, json_body};
use crate::store::Refused;

/// How many steps are listed: more than anybody reads at once.
const MAX_LISTED: u32 = 500;

/// Publishes a model, rolls back to the one before, pins or unpins the published one. Answers with the model that
/// is published then.
#[utoipa::path(
    post, path = "/publications", tag = "models", request_body = NewPublication,
    responses(
        (status = 200, body = ModelSummary),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 404, description = "No such model"),
        (status = 409, description = "Not the published model, nothing was published before it, or a type that is never published"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<ModelSummary>> {
    let request: NewPublication = json_body(&headers, body).await?;
    Ok(Json(publish(&app.backend, &request, admin.by()?).await?))
}

pub(crate) fn refuse(refused: Refused, request: &NewPublication) -> ApiFault {
    match refused {
        Refused::Unknown => ApiFault::not_found(refused.explain(&request.model)),
        Refused::OnlyTheServer => ApiFault::invalid(refused.explain(&request.model)),
        Refused::Published | Refused::NotPublished | Refused::First | Refused::ForComparison => {
            ApiFault::conflict(refused.explain(&request.model))
        }
    }
}

/// Which models of a hardware were published when, by whom and why, and which were not; the newest 500 steps,
/// newest first.
#[utoipa::path(
    get, path = "/hardware/{slug}/publications", tag = "models", params(("slug" = String, Path)),
    responses((status = 200, body = Vec<Publication>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    FromPath(hardware): FromPath<Hardware>,
) -> ApiResult<Json<Vec<Publication>>> {
    Ok(Json(app.backend.store.publications(&hardware.slug, MAX_LISTED).await?))
}
