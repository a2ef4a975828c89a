use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use diode_api::ModelSummary;
use diode_core::Problem;
use diode_core::ids::Digest;
use diode_model::UnseenModels;

use super::stored_file::FOREVER;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, InPath, etag, is_current, lookup};

/// The file of a model that was trained as this one, without the problem: the network of its cross-validation that has
/// not seen the problem's size, or the model itself if it has not learnt the problem. The server has the networks of
/// the published and of the newest model of a hardware.
#[utoipa::path(
    get, path = "/models/{id}/unseen/{problem}", tag = "models",
    params(("id" = String, Path), ("problem" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "The client has it already"),
        (status = 307, description = "The model has not learnt the problem: its own file"),
        (status = 404, description = "No such model or problem, or no networks of its cross-validation"),
    ),
)]
pub(crate) async fn get(
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
    Ok((caching, media, Bytes::copy_from_slice(file)).into_response())
}
