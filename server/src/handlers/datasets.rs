use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use diode_core::api::{ApiError, HardwareSummary};
use diode_formats::{Format, FormatError, encode};

use super::hardware;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, MadeFile, NoParameters, StrictQuery, lookup};
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
    _: StrictQuery<NoParameters>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let named = Format::travelling().find_map(|format| Some((file.strip_suffix(format.ending())?, format)));
    let (slug, format) = named.ok_or_else(|| {
        ApiFault::not_found(format!(
            "no dataset `{file}`; expected SLUG.json, SLUG.msgpack or SLUG.msgpack.zst"
        ))
    })?;
    let media = match format {
        Format::PredecessorJson => "application/json",
        Format::PredecessorMsgpack => "application/vnd.msgpack",
        _ => "application/zstd",
    };
    let HardwareSummary { hardware, .. } = lookup(&app, slug).await?;
    let stored = hardware::solutions(&app, &hardware.slug).await?;
    let make = move || -> ApiResult<MadeFile> {
        let dataset = rebuild(hardware, &stored)?;
        let bytes = encode(format, &[dataset]).map_err(unwritable)?;
        Ok(MadeFile::new(file, media, bytes))
    };
    tokio::task::spawn_blocking(make).await??.respond(&headers)
}

fn unwritable(error: FormatError) -> ApiFault {
    match error {
        FormatError::WouldLose { .. } | FormatError::TooLarge { .. } => ApiFault::refused(error.to_string()),
        other => ApiFault::internal(other),
    }
}
