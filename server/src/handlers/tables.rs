use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use diode_core::api::query::{from_text, whole_number};
use diode_core::api::{ApiError, HardwareSummary};
use diode_core::hardware::Hardware;
use diode_core::table::TableFormat;
use diode_core::table::inductor::{InductorOptions, TorchVersion};
use diode_core::{Invalid, Method, Table};
use serde::{Deserialize, Deserializer};

use super::hardware;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, MadeFile, StrictQuery, lookup};
use crate::solutions::{StoredSolutions, rebuild};

/// As many as are worth a benchmark of one's own.
const DEFAULT_TOP: u64 = 5;
/// More than any space has configs.
const MAX_TOP: u64 = 10_000;

#[derive(Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct TableQuery {
    #[serde(deserialize_with = "from_text")]
    format: Option<TableFormat>,
    /// Configs per problem; 5 unless given
    #[serde(deserialize_with = "top")]
    top: Option<u64>,
    #[serde(deserialize_with = "from_text")]
    method: Option<Method>,
    /// Inductor's keys without the device's name
    #[serde(deserialize_with = "from_text")]
    device_agnostic: Option<bool>,
    /// Voids Inductor's entries for any other torch
    #[serde(deserialize_with = "from_text")]
    torch: Option<TorchVersion>,
}

fn top<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole_number(deserializer, 1..=MAX_TOP)
}

/// The best known configs of every problem on one hardware, by one method, that
/// with most timings unless one is named: `SLUG.json` in diode's own form, or in
/// that of PyTorch Inductor's `lookup_table`.
#[utoipa::path(
    get, path = "/tables/{file}", tag = "tables", params(("file" = String, Path), TableQuery),
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
    StrictQuery(query): StrictQuery<TableQuery>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let form = query.form()?;
    let slug = file
        .strip_suffix(".json")
        .ok_or_else(|| ApiFault::not_found(format!("no table `{file}`; expected SLUG.json")))?;
    let HardwareSummary { hardware, .. } = lookup(&app, slug).await?;
    let stored = hardware::solutions(&app, &hardware.slug).await?;
    // Not SLUG.json: that is the name of a dataset, which lands in the same folder.
    let name = match form {
        Form::Diode => format!("{slug}-table.json"),
        Form::Inductor(_) => format!("{slug}-inductor.json"),
    };
    let make = move || -> ApiResult<MadeFile> {
        Ok(MadeFile::new(name, "application/json", write(hardware, &stored, &query, form)?))
    };
    tokio::task::spawn_blocking(make).await??.respond(&headers)
}

/// How a table is written.
enum Form {
    Diode,
    Inductor(InductorOptions),
}

impl TableQuery {
    fn form(&self) -> ApiResult<Form> {
        let options = InductorOptions {
            device_agnostic: self.device_agnostic.unwrap_or(false),
            torch: self.torch,
            ..InductorOptions::default()
        };
        match self.format.unwrap_or(TableFormat::Diode) {
            TableFormat::Inductor => Ok(Form::Inductor(options)),
            TableFormat::Diode if options == InductorOptions::default() => Ok(Form::Diode),
            TableFormat::Diode => {
                let given = "device_agnostic or torch";
                Err(Invalid::new("parameter", given, "them with format=inductor only").into())
            }
        }
    }
}

/// Long work: not for an async thread.
fn write(hardware: Hardware, stored: &StoredSolutions, query: &TableQuery, form: Form) -> ApiResult<Vec<u8>> {
    let dataset = rebuild(hardware, stored)?;
    let top = query.top.unwrap_or(DEFAULT_TOP) as usize;
    let table = Table::from_datasets(&[dataset], query.method, Some(top))?;
    let text = match form {
        Form::Diode => serde_json::to_vec_pretty(&table),
        Form::Inductor(options) => serde_json::to_vec_pretty(&table.to_inductor(&options)?),
    };
    text.map_err(ApiFault::internal)
}
