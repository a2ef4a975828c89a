use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diode_core::api::ApiError;
use diode_core::ids::Digest;
use diode_formats::{Format, FormatError, encode};

use super::hardware;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, Params, etag, is_current};
use crate::solutions::rebuild;

/// Everything stored for one hardware: `SLUG.json` and `SLUG.msgpack` in
/// torch-diode's formats, `SLUG.msgpack.zst` in the columnar one, which holds all.
#[utoipa::path(
    get, path = "/datasets/{file}", tag = "datasets", params(("file" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "The client has it already"),
        (status = 404, body = ApiError),
        (status = 422, body = ApiError, description = "The format cannot hold what is stored"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Path(file): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> ApiResult<Response> {
    params.finish()?;
    let named = Format::travelling().find_map(|format| Some((file.strip_suffix(format.ending())?, format)));
    let (slug, format) = named.ok_or_else(|| {
        ApiFault::not_found(format!(
            "no dataset `{file}`; expected SLUG.json, SLUG.msgpack or SLUG.msgpack.zst"
        ))
    })?;
    let summary = hardware::find(&app, slug).await?;
    let stored = app.backend.store.hardware_solutions(&summary.hardware.slug).await?;
    if stored.solutions.is_empty() {
        return Err(ApiFault::not_found(format!("nothing has been uploaded for `{slug}` yet")));
    }
    let made = tokio::task::spawn_blocking(move || -> ApiResult<_> {
        let dataset = rebuild(summary.hardware, &stored)?;
        let bytes = encode(format, &[dataset]).map_err(unwritable)?;
        Ok((Digest::of(&bytes), bytes))
    });
    let (digest, bytes) = made.await??;
    let tag = etag(&digest);
    if is_current(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let media = match format {
        Format::PredecessorJson => "application/json",
        Format::PredecessorMsgpack => "application/vnd.msgpack",
        _ => "application/zstd",
    };
    let disposition = format!("attachment; filename=\"{file}\"");
    let about = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_TYPE, HeaderValue::from_static(media)),
        (header::CONTENT_DISPOSITION, HeaderValue::try_from(disposition).map_err(ApiFault::internal)?),
    ];
    Ok((about, bytes).into_response())
}

fn unwritable(error: FormatError) -> ApiFault {
    match error {
        FormatError::WouldLose { .. } | FormatError::TooLarge { .. } => ApiFault::refused(error.to_string()),
        other => ApiFault::internal(other),
    }
}
