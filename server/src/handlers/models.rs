use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diode_core::api::{ApiError, ModelSummary};
use diode_core::ids::{HardwareSlug, ModelId};

use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::{ApiFault, ApiResult, Params, etag, from_path, is_current};

/// A model's id is the digest of its bytes, so what it names never changes.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// All models, or those of one hardware, newest first.
#[utoipa::path(
    get, path = "/models", tag = "models", params(("hardware" = Option<String>, Query)),
    responses((status = 200, body = Vec<ModelSummary>), (status = 400, body = ApiError)),
)]
pub(crate) async fn list(State(app): State<App>, mut params: Params) -> ApiResult<Json<Vec<ModelSummary>>> {
    let hardware: Option<HardwareSlug> = params.take("hardware")?;
    params.finish()?;
    Ok(Json(app.backend.store.models(hardware.as_ref()).await?))
}

/// One model.
#[utoipa::path(
    get, path = "/models/{id}", tag = "models", params(("id" = String, Path)),
    responses((status = 200, body = ModelSummary), (status = 404, body = ApiError)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> ApiResult<Json<ModelSummary>> {
    params.finish()?;
    Ok(Json(find(&app, &id).await?))
}

/// The model's file.
#[utoipa::path(
    get, path = "/models/{id}/download", tag = "models", params(("id" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "The client has it already"),
        (status = 404, body = ApiError),
    ),
)]
pub(crate) async fn download(
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> ApiResult<Response> {
    params.finish()?;
    let model = find(&app, &id).await?;
    let tag = etag(&model.digest);
    let caching = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, FOREVER)];
    if is_current(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
    }
    let disposition = format!("attachment; filename=\"{}\"", model.file_name);
    let about = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_DISPOSITION, HeaderValue::try_from(disposition).map_err(ApiFault::internal)?),
    ];
    let bytes = app.backend.blobs.get(BlobKind::Model, &model.digest).await?;
    Ok((caching, about, bytes).into_response())
}

async fn find(app: &App, id: &str) -> ApiResult<ModelSummary> {
    const HINT: &str = "/api/v1/models lists what there is";
    let id: ModelId = from_path(id, HINT)?;
    let model = app.backend.store.model(&id).await?;
    model.ok_or_else(|| ApiFault::not_found(format!("no model `{id}`; {HINT}")))
}
