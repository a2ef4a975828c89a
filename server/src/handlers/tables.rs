use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use diode_api::query::{from_text, whole_number};
use diode_core::hardware::Hardware;
use diode_core::table::TableConfig;
use diode_core::table::TableFormat;
use diode_core::table::inductor::{InductorOptions, TorchVersion};
use diode_core::{Invalid, Method, Problem, Table};
use serde::{Deserialize, Deserializer};

use super::export::Export;
use crate::app::App;
use crate::consensus::{ByProblem, Consensus};
use crate::exports::ExportFile;
use crate::http::{ApiFault, ApiResult, FileName, StrictQuery, lookup};
use crate::limits::Client;
use crate::solutions::cut;

/// How many configs per problem a table has by default: as many as a user would benchmark.
const DEFAULT_TOP: u64 = 5;
/// The most rows of one table. As JSON, each row takes some 250 bytes.
const MAX_ROWS: usize = 1 << 20;
/// How many timings are decoded at a time.
const TIMINGS_AT_ONCE: u64 = 1 << 20;
/// The most configs per problem: more than any space has.
const MAX_TOP: u64 = 10_000;

#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct TableQuery {
    #[serde(deserialize_with = "from_text")]
    format: Option<TableFormat>,
    /// Configs per problem; 5 unless given
    #[serde(deserialize_with = "top")]
    #[param(minimum = 1, maximum = 10_000)]
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
        (status = 422, description = "More rows than a table may have"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    client: Client,
    FileName(file): FileName,
    StrictQuery(query): StrictQuery<TableQuery>,
    method: axum::http::Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let form = query.form()?;
    let slug = file
        .strip_suffix(".json")
        .ok_or_else(|| ApiFault::not_found(format!("no table `{file}`; expected SLUG.json")))?;
    let hardware: Hardware = lookup(&app, slug).await?;
    // The name is not SLUG.json: a dataset has that name, and a browser may save both in one folder.
    let name = match form {
        Form::Diode => format!("{slug}-table.json"),
        Form::Inductor(_) => format!("{slug}-inductor.json"),
    };
    let export = Export { slug: &hardware.slug, form: format!("{query:?}"), name, media: "application/json" };
    export.answer(&app, &client, &method, &headers, make(&app, hardware.clone(), &query, form)).await
}

/// The form in which a table is written.
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

/// Uses the consensus of each problem, as the boards do. Reads a few problems at a time, so that memory holds little
/// more than the table.
async fn make(app: &App, hardware: Hardware, query: &TableQuery, form: Form) -> ApiResult<ExportFile> {
    let store = &app.backend.store;
    let slug = &hardware.slug;
    let method = choose(&store.method_sizes(slug).await?, query.method)?;
    let top = query.top.unwrap_or(DEFAULT_TOP) as usize;
    let sizes = store.problem_sizes(slug, method).await?;
    let (mut rows, mut left_out) = (0, 0);
    let mut best: BTreeMap<Problem, Vec<TableConfig>> = BTreeMap::new();
    for problems in cut(&sizes, TIMINGS_AT_ONCE) {
        let stored = store.problems_solutions(slug, method, problems).await?;
        let mut few = Table::new(hardware.clone(), method);
        let make = move || -> Result<_, Invalid> {
            let ByProblem { consensuses, left_out } = Consensus::by_problem(&stored);
            for (problem, consensus) in consensuses {
                let times = consensus.configs.iter().map(|agreed| (agreed.config, agreed.time.micros()));
                few.insert_best(problem, times, Some(top))?;
            }
            Ok((few, left_out))
        };
        let (few, damaged) = tokio::task::spawn_blocking(make).await??;
        left_out += damaged;
        for (problem, configs) in few.iter() {
            rows += configs.len();
            best.insert(problem.clone(), configs.to_vec());
        }
        if rows > MAX_ROWS {
            return Err(ApiFault::refused(format!(
                "top: got {top}, which makes a table of more than {MAX_ROWS} rows; ask for fewer per problem"
            )));
        }
    }
    let write = move || -> ApiResult<ExportFile> {
        let mut table = Table::new(hardware, method);
        for (problem, configs) in best {
            table.insert(problem, configs)?;
        }
        let text = match form {
            Form::Diode => serde_json::to_vec_pretty(&table),
            Form::Inductor(options) => serde_json::to_vec_pretty(&table.to_inductor(&options)?),
        };
        Ok(ExportFile { bytes: text.map_err(ApiFault::internal)?.into(), left_out })
    };
    tokio::task::spawn_blocking(write).await?
}

/// The wanted method or, without one, the method with most timings.
fn choose(there: &[(Method, u64)], wanted: Option<Method>) -> Result<Method, Invalid> {
    let most = there.iter().max_by_key(|(method, timings)| (*timings, *method)).map(|(method, _)| *method);
    match wanted {
        None => most.ok_or_else(|| Invalid::new("datasets", "no problem", "at least one")),
        Some(wanted) if there.iter().any(|(method, _)| *method == wanted) => Ok(wanted),
        Some(wanted) => {
            let found: Vec<String> = there.iter().map(|(method, _)| method.to_string()).collect();
            let expected = format!("{}, as there is", found.join(" or "));
            Err(Invalid::new("method", format_args!("`{wanted}`"), expected))
        }
    }
}
