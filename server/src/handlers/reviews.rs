use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use diode_api::query::from_text;
use diode_api::{ContributionState, ModelSummary, Review};
use diode_core::ids::ModelId;
use serde::Deserialize;

use super::contributions::no_job;
use super::models::answer_with_file;
use super::stored_file::PRIVATE;
use crate::accounts::{Admin, Authorized};
use crate::admin::acts::review;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, InPath, StrictQuery, json_body};
use crate::store::{ContributionFilter, ReviewRefused};

/// How many models are listed: more than anybody reads at once.
const MAX_LISTED: u32 = 500;

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReviewQuery {
    #[serde(default, deserialize_with = "from_text")]
    state: Option<ContributionState>,
}

/// Accepts, declines or withdraws a contributed model, or has it judged anew. An accepted model is one of the
/// server's; it is published only if somebody publishes it.
#[utoipa::path(
    post, path = "/reviews", tag = "moderation", request_body = Review,
    responses(
        (status = 200, body = ModelSummary),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 404, description = "Nobody has contributed such a model"),
        (status = 409, description = "Not possible in its state"),
        (status = 429, description = "As many jobs wait as may"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<ModelSummary>> {
    let request: Review = json_body(&headers, body).await?;
    Ok(Json(review(&app.backend, &request, admin.by()?).await?))
}

pub(crate) fn refuse(refused: ReviewRefused, request: &Review) -> ApiFault {
    match refused {
        ReviewRefused::Unknown => ApiFault::not_found(refused.explain(request)),
        ReviewRefused::NotNow(_) | ReviewRefused::BeingJudged => ApiFault::conflict(refused.explain(request)),
        ReviewRefused::NoJob(queued) => no_job(queued),
    }
}

/// The models that people have contributed, in every state, with the server's figures; the newest 500, newest
/// first.
#[utoipa::path(
    get, path = "/reviews", tag = "moderation", params(ReviewQuery),
    responses(
        (status = 200, body = Vec<ModelSummary>),
        (status = 401),
        (status = 403),
    ),
)]
pub(crate) async fn list(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<ReviewQuery>,
    _: Authorized<Admin>,
) -> ApiResult<Json<Vec<ModelSummary>>> {
    let filter = ContributionFilter { account: None, state: query.state };
    Ok(Json(app.backend.store.contributions(&filter, MAX_LISTED).await?))
}

/// The file of a contributed model, in whichever state it is.
#[utoipa::path(
    get, path = "/reviews/{id}/download", tag = "moderation", params(("id" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream", description = "The part that `Range` asks for"),
        (status = 304, description = "The client has it already"),
        (status = 401),
        (status = 403),
        (status = 416, description = "The file has no such part"),
    ),
)]
pub(crate) async fn download(
    State(app): State<App>,
    _: Authorized<Admin>,
    InPath(id): InPath<String>,
    method: Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let unknown = || {
        ApiFault::not_found(format!(
            "nobody has contributed a model `{id}`; /api/v1/reviews lists what there is"
        ))
    };
    let parsed: ModelId = id.parse().map_err(|_| unknown())?;
    let model = app.backend.store.contribution(&parsed).await?.ok_or_else(unknown)?;
    answer_with_file(&app, &model, PRIVATE, &method, &headers).await
}
