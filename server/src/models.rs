//! Models: those that the server has trained or was released with, which of them is published, and those that people
//! contribute. Here are the routes of the lists, files and publications.

pub(crate) mod contribution_routes;
pub(crate) mod contribution_store;
pub(crate) mod model_store;
pub(crate) mod publication_store;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::{Extension, Json};
use diode_api::query::from_text;
use diode_api::{ModelSummary, ModelType, Publication};
use diode_core::Problem;
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, HardwareSlug, ModelId};
use diode_model::UnseenModels;
use serde::Deserialize;

use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::stored_file::{FOREVER, StoredFile, WHILE_THERE};
use crate::http::{
    ApiFault, ApiResult, Compressible, FromPath, InPath, Lookup, StrictQuery, etag, is_current, lookup,
};
use crate::store::{Store, StoreResult};

impl Lookup for ModelSummary {
    type Id = ModelId;
    const KIND: &'static str = "model";
    const HINT: &'static str = "/api/v1/models lists what there is";

    async fn find(store: &Store, id: &ModelId) -> StoreResult<Option<Self>> {
        store.model(id).await
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ModelQuery {
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<HardwareSlug>)]
    hardware: Option<HardwareSlug>,
    /// Such as `ranking`, the type that programs take.
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<ModelType>)]
    model_type: Option<ModelType>,
}

/// How many models are listed: more than anybody reads at once.
const NEWEST: u32 = 500;

/// The models, or those of one hardware or type, newest first: the newest 500, and all that are published.
#[utoipa::path(
    get, operation_id = "list", path = "/models", tag = "models", params(ModelQuery),
    responses((status = 200, body = Vec<ModelSummary>)),
)]
pub(crate) async fn models(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<ModelQuery>,
) -> ApiResult<Json<Vec<ModelSummary>>> {
    let mut models = app.backend.store.models(query.hardware.as_ref(), NEWEST).await?;
    models.retain(|model| query.model_type.is_none_or(|wanted| model.model_type == wanted));
    Ok(Json(models))
}

/// One model.
#[utoipa::path(
    get, operation_id = "get", path = "/models/{id}", tag = "models", params(("id" = String, Path)),
    responses((status = 200, body = ModelSummary)),
)]
pub(crate) async fn model(FromPath(model): FromPath<ModelSummary>) -> Json<ModelSummary> {
    Json(model)
}

/// The model's file.
#[utoipa::path(
    get, path = "/models/{id}/download", tag = "models", params(("id" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream", description = "The part that `Range` asks for"),
        (status = 304, description = "The client has it already"),
        (status = 416, description = "The file has no such part"),
    ),
)]
pub(crate) async fn download(
    State(app): State<App>,
    FromPath(model): FromPath<ModelSummary>,
    method: Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    // Only a contributed model can be taken from the server's models.
    let caching = if model.contribution.is_some() { WHILE_THERE } else { FOREVER };
    answer_with_file(&app, &model, caching, &method, &headers).await
}

pub(crate) async fn answer_with_file(
    app: &App,
    model: &ModelSummary,
    caching: HeaderValue,
    method: &Method,
    headers: &HeaderMap,
) -> ApiResult<Response> {
    let file = StoredFile {
        kind: BlobKind::Model,
        sha256: &model.digest,
        bytes: model.bytes,
        name: &model.file_name,
        media: "application/octet-stream",
        caching,
    };
    let mut response = file.answer(app, method, headers).await?;
    if response.status() == StatusCode::OK && !headers.contains_key(header::RANGE) {
        response.extensions_mut().insert(Compressible);
    }
    Ok(response)
}

/// How many steps are listed: more than anybody reads at once.
const MAX_LISTED: u32 = 500;

/// Which models of a hardware were published when, by whom and why, and which were not; the newest 500 steps,
/// newest first.
#[utoipa::path(
    get, operation_id = "list", path = "/hardware/{slug}/publications", tag = "models", params(("slug" = String, Path)),
    responses((status = 200, body = Vec<Publication>)),
)]
pub(crate) async fn publications(
    State(app): State<App>,
    FromPath(hardware): FromPath<Hardware>,
) -> ApiResult<Json<Vec<Publication>>> {
    Ok(Json(app.backend.store.publications(&hardware.slug, MAX_LISTED).await?))
}

/// The file of a model that was trained as this one, without the problem: the network of its cross-validation that has
/// not seen the problem's size, or the model itself if it has not learnt the problem. The server has the networks of
/// the published and of the newest model of a hardware.
#[utoipa::path(
    get, operation_id = "get", path = "/models/{id}/unseen/{problem}", tag = "models",
    params(("id" = String, Path), ("problem" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "The client has it already"),
        (status = 307, description = "The model has not learnt the problem: its own file"),
        (status = 404, description = "No such model or problem, or no networks of its cross-validation"),
    ),
)]
pub(crate) async fn unseen_model(
    State(app): State<App>,
    InPath((id, problem)): InPath<(String, String)>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let model: ModelSummary = lookup(&app, &id).await?;
    let problem: Problem = lookup(&app, &problem).await?;
    let stored = app.backend.store.unseen_models(&model.id).await?.ok_or_else(|| {
        ApiFault::not_found(format!(
            "the server has no networks of the cross-validation of model `{}`; it keeps those of the published and \
             the newest model of a hardware",
            model.id
        ))
    })?;
    let unseen = UnseenModels::from_bytes(&stored).map_err(ApiFault::internal)?;
    let Some(file) = unseen.for_problem(&problem) else {
        return Ok(Redirect::temporary(&format!("/api/v1/models/{}/download", model.id)).into_response());
    };
    let tag = etag(&Digest::of(file));
    let caching = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, FOREVER)];
    if is_current(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    let media = [(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))];
    Ok((Extension(Compressible), caching, media, Bytes::copy_from_slice(file)).into_response())
}
