use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::response::Response;
use diode_api::query::from_text;
use diode_api::{ModelSummary, ModelType};
use diode_core::ids::{HardwareSlug, ModelId};
use serde::Deserialize;

use super::stored_file::{FOREVER, StoredFile, WHILE_THERE};
use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::{ApiResult, FromPath, Lookup, StrictQuery};
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
    get, path = "/models", tag = "models", params(ModelQuery),
    responses((status = 200, body = Vec<ModelSummary>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<ModelQuery>,
) -> ApiResult<Json<Vec<ModelSummary>>> {
    let mut models = app.backend.store.models(query.hardware.as_ref(), NEWEST).await?;
    models.retain(|model| query.model_type.is_none_or(|wanted| model.model_type == wanted));
    Ok(Json(models))
}

/// One model.
#[utoipa::path(
    get, path = "/models/{id}", tag = "models", params(("id" = String, Path)),
    responses((status = 200, body = ModelSummary)),
)]
pub(crate) async fn get(FromPath(model): FromPath<ModelSummary>) -> Json<ModelSummary> {
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
    // Only a contributed model can be withdrawn.
    let caching = if model.contribution.is_some() { WHILE_THERE } else { FOREVER };
    answer_with_file(&app, &model, caching, &method, &headers).await
}

pub(super) async fn answer_with_file(
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
    file.answer(app, method, headers).await
}
