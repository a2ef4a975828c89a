use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use diode_api::query::whole_number;
use diode_api::{MAX_IN_OTHERS, MAX_IN_PARQUET};
use diode_core::hardware::Hardware;
use diode_formats::{Format, FormatError, encode};
use serde::{Deserialize, Deserializer};

use super::export::Export;
use crate::app::App;
use crate::exports::ExportFile;
use crate::http::{ApiFault, ApiResult, FileName, StrictQuery, lookup, media};
use crate::limits::Client;
use crate::solutions::{Rebuilt, cut, rebuild};

/// The most timings and failures in one columnar file, which takes some 200 MB while it is made.
const MAX_COLUMNAR: u64 = 1 << 23;

#[derive(Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct DatasetQuery {
    /// Which part, from 1 on, of a dataset that is too large for one file
    #[serde(deserialize_with = "part")]
    #[param(minimum = 1, maximum = 4_294_967_295.0)]
    part: Option<u64>,
}

fn part<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole_number(deserializer, 1..=u64::from(u32::MAX))
}

/// Everything stored for one hardware: `SLUG.json` and `SLUG.msgpack` in
/// torch-diode's formats, `SLUG.csv` and `SLUG.parquet` with a row for each timing,
/// `SLUG.msgpack.zst` in the columnar one, which holds all.
#[utoipa::path(
    get, path = "/datasets/{file}", tag = "datasets", params(("file" = String, Path), DatasetQuery),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 304, description = "The client has it already"),
        (status = 422, description = "The format cannot hold what is stored, or only in parts"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    client: Client,
    FileName(file): FileName,
    StrictQuery(query): StrictQuery<DatasetQuery>,
    method: Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let mut formats = Format::ALL.into_iter();
    let named = formats.find_map(|format| Some((file.strip_suffix(format.ending())?, format)));
    let (slug, format) = named.ok_or_else(|| {
        ApiFault::not_found(format!(
            "no dataset `{file}`; expected SLUG.msgpack.zst, SLUG.parquet, SLUG.csv, SLUG.msgpack or SLUG.json"
        ))
    })?;
    let hardware: Hardware = lookup(&app, slug).await?;
    let name = match query.part {
        None => file.clone(),
        Some(part) => format!("{slug}-part-{part}{}", format.ending()),
    };
    let export = Export { slug: &hardware.slug, form: "dataset".to_owned(), name, media: media(&file) };
    let make = make(&app, hardware.clone(), format, query.part);
    export.answer(&app, &client, &method, &headers, make).await
}

async fn make(app: &App, hardware: Hardware, format: Format, part: Option<u64>) -> ApiResult<ExportFile> {
    let store = &app.backend.store;
    let sizes = store.solution_sizes(&hardware.slug).await?;
    let limit = match format {
        Format::Columnar => MAX_COLUMNAR,
        Format::Parquet => MAX_IN_PARQUET,
        Format::PredecessorJson | Format::PredecessorMsgpack | Format::Csv => MAX_IN_OTHERS,
    };
    let parts = cut(&sizes, limit);
    let wanted = match (part, parts.as_slice()) {
        (None, [whole]) => Some(whole),
        (None, [_, _, ..]) => {
            return Err(ApiFault::refused(format!(
                "the dataset is too large for one file: ask for each of its {} parts, ?part=1 to ?part={}",
                parts.len(),
                parts.len()
            )));
        }
        (None, []) => None,
        (Some(part), parts) => usize::try_from(part - 1).ok().and_then(|at| parts.get(at)),
    };
    let wanted = wanted
        .ok_or_else(|| ApiFault::not_found(format!("no such part; the dataset has {}", parts.len())))?
        .clone();
    let stored = store.numbered_solutions(&hardware.slug, wanted).await?;
    let make = move || -> ApiResult<ExportFile> {
        let Rebuilt { dataset, left_out } = rebuild(hardware, stored);
        let bytes = encode(format, &[dataset]).map_err(unwritable)?;
        Ok(ExportFile { bytes: bytes.into(), left_out: left_out.len() })
    };
    tokio::task::spawn_blocking(make).await?
}

fn unwritable(error: FormatError) -> ApiFault {
    match error {
        FormatError::WouldLose { .. } | FormatError::TooLarge { .. } => ApiFault::refused(error.to_string()),
        other => ApiFault::internal(other),
    }
}
