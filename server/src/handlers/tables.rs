use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diode_core::api::ApiError;
use diode_core::hardware::Hardware;
use diode_core::ids::Digest;
use diode_core::table::TableFormat;
use diode_core::table::inductor::{InductorOptions, TorchVersion};
use diode_core::{Invalid, Method, Table};

use super::hardware;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, Params, etag, is_current};
use crate::solutions::{StoredSolutions, rebuild};

/// As many as are worth a benchmark of one's own.
const DEFAULT_TOP: usize = 5;
/// More than any space has configs.
const MAX_TOP: u64 = 10_000;

/// What is asked of a table.
struct Wanted {
    format: TableFormat,
    top: usize,
    method: Option<Method>,
    inductor: InductorOptions,
}

/// The best known configs of every problem on one hardware, by one method, that
/// with most timings unless one is named: `SLUG.json` in diode's own form, or in
/// that of PyTorch Inductor's `lookup_table`.
#[utoipa::path(
    get, path = "/tables/{file}", tag = "tables",
    params(
        ("file" = String, Path),
        ("format" = Option<TableFormat>, Query),
        ("top" = Option<u64>, Query, description = "Configs per problem; 5 unless given"),
        ("method" = Option<Method>, Query),
        ("device_agnostic" = Option<bool>, Query, description = "Inductor's keys without the device's name"),
        ("torch" = Option<TorchVersion>, Query, description = "Voids Inductor's entries for any other torch"),
    ),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/json"),
        (status = 304, description = "The client has it already"),
        (status = 400, body = ApiError),
        (status = 404, body = ApiError),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    Path(file): Path<String>,
    params: Params,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let wanted = Wanted::take(params)?;
    let slug = file
        .strip_suffix(".json")
        .ok_or_else(|| ApiFault::not_found(format!("no table `{file}`; expected SLUG.json")))?;
    let summary = hardware::find(&app, slug).await?;
    let stored = app.backend.store.hardware_solutions(&summary.hardware.slug).await?;
    if stored.solutions.is_empty() {
        return Err(ApiFault::not_found(format!("nothing has been uploaded for `{slug}` yet")));
    }
    // Named apart, since both are downloaded beside a dataset that is JSON too.
    let name = match wanted.format {
        TableFormat::Diode => format!("{slug}-table.json"),
        TableFormat::Inductor => format!("{slug}-inductor.json"),
    };
    let made = tokio::task::spawn_blocking(move || make(summary.hardware, &stored, &wanted));
    let bytes = made.await??;
    let tag = etag(&Digest::of(&bytes));
    if is_current(&headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    let disposition = format!("attachment; filename=\"{name}\"");
    let about = [
        (header::ETAG, tag),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CONTENT_DISPOSITION, HeaderValue::try_from(disposition).map_err(ApiFault::internal)?),
    ];
    Ok((about, bytes).into_response())
}

impl Wanted {
    fn take(mut params: Params) -> ApiResult<Self> {
        let wanted = Self {
            format: params.take("format")?.unwrap_or(TableFormat::Diode),
            top: params.number("top", 1..=MAX_TOP)?.map_or(DEFAULT_TOP, |top| top as usize),
            method: params.take("method")?,
            inductor: InductorOptions {
                device_agnostic: params.take("device_agnostic")?.unwrap_or(false),
                torch: params.take("torch")?,
                ..InductorOptions::default()
            },
        };
        params.finish()?;
        let inductors = wanted.inductor != InductorOptions::default();
        if inductors && wanted.format == TableFormat::Diode {
            let given = "device_agnostic or torch";
            return Err(Invalid::new("parameter", given, "them with format=inductor only").into());
        }
        Ok(wanted)
    }
}

/// Long work: not for an async task.
fn make(hardware: Hardware, stored: &StoredSolutions, wanted: &Wanted) -> ApiResult<Vec<u8>> {
    let dataset = rebuild(hardware, stored)?;
    let table = Table::from_datasets(&[dataset], wanted.method, Some(wanted.top))?;
    let text = match wanted.format {
        TableFormat::Diode => serde_json::to_vec_pretty(&table),
        TableFormat::Inductor => serde_json::to_vec_pretty(&table.to_inductor(&wanted.inductor)?),
    };
    text.map_err(ApiFault::internal)
}
