use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use diode_core::api::{ApiError, MAX_UPLOAD_BYTES, Receipt};
use diode_core::ids::UploadId;
use futures_util::StreamExt as _;

use crate::app::App;
use crate::http::{ApiFault, ApiResult, Params, from_path};
use crate::ingest::ingest;

/// A client that sends nothing for this long would keep others from their turn.
const MAX_STALL: Duration = Duration::from_secs(30);

/// What a client says it sends where it does not say what a dataset is.
const WRAPPERS: [&str; 2] = ["multipart/form-data", "application/x-www-form-urlencoded"];

/// Stores a dataset: torch-diode's JSON or MessagePack, or the columnar format,
/// each also under zstd, as the raw body.
#[utoipa::path(
    post, path = "/uploads", tag = "uploads",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = Receipt, description = "Stored, and durable"),
        (status = 200, body = Receipt, description = "These very bytes were stored before"),
        (status = 400, body = ApiError, description = "Not a dataset"),
        (status = 413, body = ApiError, description = "Too large"),
        (status = 415, body = ApiError, description = "Wrapped in a form or an encoding"),
        (status = 422, body = ApiError, description = "A dataset, but not a believable one"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    params: Params,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<Receipt>)> {
    params.finish()?;
    refuse_wrapped(&headers)?;
    let _permit = app.upload_permit().await;
    let bytes = read(&headers, body).await?;
    let receipt = ingest(&app.backend, bytes).await?;
    let status = if receipt.already_stored { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(receipt)))
}

/// What was stored.
#[utoipa::path(
    get, path = "/uploads/{id}", tag = "uploads", params(("id" = String, Path)),
    responses((status = 200, body = Receipt), (status = 404, body = ApiError)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
    params: Params,
) -> ApiResult<Json<Receipt>> {
    const HINT: &str = "the receipt of an upload holds its id";
    params.finish()?;
    let id: UploadId = from_path(&id, HINT)?;
    let receipt = app.backend.store.receipt(&id).await?;
    receipt.map(Json).ok_or_else(|| ApiFault::not_found(format!("no upload `{id}`; {HINT}")))
}

fn refuse_wrapped(headers: &HeaderMap) -> ApiResult<()> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = text(header::CONTENT_TYPE);
    if WRAPPERS.iter().any(|wrapper| media.starts_with(wrapper)) {
        return Err(ApiFault::unsupported_media(format!(
            "Content-Type: got `{media}`, expected the file itself as the body \
             (curl --data-binary @FILE -H 'Content-Type: application/octet-stream')"
        )));
    }
    let encoding = text(header::CONTENT_ENCODING);
    if !matches!(encoding, "" | "identity") {
        return Err(ApiFault::unsupported_media(format!(
            "Content-Encoding: got `{encoding}`, expected none; a file compressed with zstd is recognised as it is"
        )));
    }
    Ok(())
}

/// Collects the body and stops reading as soon as it is too long.
async fn read(headers: &HeaderMap, body: Body) -> ApiResult<Bytes> {
    let too_large = || {
        ApiFault::too_large(format!(
            "upload: more than {} MiB; split it, or write it as .msgpack.zst (diode convert IN OUT.msgpack.zst)",
            MAX_UPLOAD_BYTES / 1024 / 1024
        ))
    };
    let claimed = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if claimed.is_some_and(|length: u64| length > MAX_UPLOAD_BYTES as u64) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut stream = body.into_data_stream();
    let stalled = |_| {
        ApiFault::invalid(format!(
            "upload: nothing arrived for {} s, expected steady data",
            MAX_STALL.as_secs()
        ))
    };
    while let Some(chunk) = tokio::time::timeout(MAX_STALL, stream.next()).await.map_err(stalled)? {
        let chunk = chunk
            .map_err(|error| ApiFault::invalid(format!("the upload broke off while it was read: {error}")))?;
        if bytes.len() + chunk.len() > MAX_UPLOAD_BYTES {
            return Err(too_large());
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.into())
}
