//! Tables and datasets for download. Both are made once for a state of the data and answered in parts.

use std::collections::BTreeMap;
use std::ops::Range;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use diode_api::query::{from_text, whole_number};
use diode_api::{DATA_LICENCE, MAX_IN_OTHERS, MAX_IN_PARQUET, ProblemFilter};
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, HardwareSlug};
use diode_core::table::inductor::{InductorOptions, TorchVersion};
use diode_core::table::{TableConfig, TableFormat};
use diode_core::{DType, Invalid, Method, Op, Problem, Scaling, Table};
use diode_formats::{Format, FormatError, encode};
use serde::{Deserialize, Deserializer};

use crate::app::App;
use crate::boards::consensus::{ByProblem, Consensus};
use crate::boards::export_cache::ExportFile;
use crate::http::stored_file::in_parts;
use crate::http::{ApiFault, ApiResult, FileName, StrictQuery, etag, is_current, lookup, media, save_as};
use crate::limits::{Client, admit};
use crate::uploads::solutions::{Rebuilt, StoredSolutions, cut, rebuild};

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
    /// Only problems of this operator
    #[serde(deserialize_with = "from_text")]
    op: Option<Op>,
    /// Only problems of this type
    #[serde(deserialize_with = "from_text")]
    dtype: Option<DType>,
    /// Only problems whose operands are scaled so
    #[serde(deserialize_with = "from_text")]
    scaling: Option<Scaling>,
}

fn top<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole_number(deserializer, 1..=MAX_TOP)
}

/// The best known configs of every problem on one hardware, by one method, that
/// with most timings unless one is named: `SLUG.json` in diode's own form, or in
/// that of PyTorch Inductor's `lookup_table`, which has no scaled and grouped problems.
#[utoipa::path(
    get, operation_id = "get", path = "/tables/{file}", tag = "tables", params(("file" = String, Path), TableQuery),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/json"),
        (status = 304, description = "The client has it already"),
        (status = 422, description = "More rows than a table may have"),
    ),
)]
pub(crate) async fn table(
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
    let export = Export {
        slug: &hardware.slug,
        form: format!("{query:?}"),
        name,
        media: "application/json",
        even_empty: false,
    };
    export.answer(&app, &client, &method, &headers, make_table(&app, hardware.clone(), &query, form)).await
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
async fn make_table(app: &App, hardware: Hardware, query: &TableQuery, form: Form) -> ApiResult<ExportFile> {
    let store = &app.backend.store;
    let slug = &hardware.slug;
    let method = choose(&store.method_sizes(slug).await?, query.method)?;
    let top = query.top.unwrap_or(DEFAULT_TOP) as usize;
    let TableQuery { op, dtype, scaling, .. } = *query;
    let wanted = ProblemFilter { op, dtype, scaling, ..ProblemFilter::default() };
    let sizes = store.problem_sizes(slug, method).await?;
    let (mut rows, mut left_out) = (0, 0);
    let mut best: BTreeMap<Problem, Vec<TableConfig>> = BTreeMap::new();
    for problems in cut(&sizes, TIMINGS_AT_ONCE) {
        let mut stored = store.problems_solutions(slug, method, problems).await?;
        keep(&mut stored, &wanted);
        let mut few = Table::new(hardware.clone(), method);
        let make = move || -> Result<_, Invalid> {
            let ByProblem { consensuses, left_out } = Consensus::by_problem(&stored);
            for (problem, consensus) in consensuses {
                let times = consensus.leading().map(|agreed| (agreed.config, agreed.time.micros()));
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
        Ok(ExportFile::new(text.map_err(ApiFault::internal)?, left_out))
    };
    tokio::task::spawn_blocking(write).await?
}

/// Drops the solutions of problems that a filter does not admit.
fn keep(stored: &mut StoredSolutions, wanted: &ProblemFilter) {
    let StoredSolutions { solutions, problems, .. } = stored;
    // A solution without a problem is damaged, and is reported as such.
    solutions.retain(|solution| problems.get(&solution.problem).is_none_or(|problem| wanted.admits(problem)));
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
    /// Only problems of this operator
    #[serde(deserialize_with = "from_text")]
    op: Option<Op>,
    /// Only problems of this type
    #[serde(deserialize_with = "from_text")]
    dtype: Option<DType>,
    /// Only problems whose operands are scaled so
    #[serde(deserialize_with = "from_text")]
    scaling: Option<Scaling>,
}

fn part<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole_number(deserializer, 1..=u64::from(u32::MAX))
}

/// Everything stored for one hardware, or what is left of it by an operator, a type or a scaling: `SLUG.json`
/// and `SLUG.msgpack` in torch-diode's formats, `SLUG.csv` and `SLUG.parquet` with a row for each timing,
/// `SLUG.msgpack.zst` in the columnar one, which holds all.
#[utoipa::path(
    get, operation_id = "get", path = "/datasets/{file}", tag = "datasets", params(("file" = String, Path), DatasetQuery),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream", description = "The part that `Range` asks for"),
        (status = 304, description = "The client has it already"),
        (status = 416, description = "The file has no such part"),
        (status = 422, description = "The format cannot hold what is stored, or only in parts"),
    ),
)]
pub(crate) async fn dataset(
    State(app): State<App>,
    client: Client,
    FileName(file): FileName,
    StrictQuery(query): StrictQuery<DatasetQuery>,
    method: axum::http::Method,
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
    let DatasetQuery { part, op, dtype, scaling } = query;
    let wanted = ProblemFilter { op, dtype, scaling, ..ProblemFilter::default() };
    let name =
        [op.map(Op::as_str), dtype.map(DType::as_str), scaling.map(Scaling::as_str)].into_iter().flatten();
    let mut name = name.fold(slug.to_owned(), |name, word| format!("{name}-{word}"));
    if let Some(part) = part {
        name += &format!("-part-{part}");
    }
    name += format.ending();
    let export = Export {
        slug: &hardware.slug,
        form: "dataset".to_owned(),
        name,
        media: media(&file),
        even_empty: false,
    };
    let make = make_dataset(&app, hardware.clone(), format, part, wanted);
    export.answer(&app, &client, &method, &headers, make).await
}

async fn make_dataset(
    app: &App,
    hardware: Hardware,
    format: Format,
    part: Option<u64>,
    filter: ProblemFilter,
) -> ApiResult<ExportFile> {
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
    let mut stored = store.numbered_solutions(&hardware.slug, wanted).await?;
    keep(&mut stored, &filter);
    let make = move || -> ApiResult<ExportFile> {
        let Rebuilt { mut dataset, left_out } = rebuild(hardware, stored);
        // Readers of Parquet skip the groups of rows that cannot hold what they want.
        dataset.solutions.sort_by_cached_key(|solution| {
            let p = &solution.problem;
            (p.op.as_str(), p.a_dtype.as_str(), p.m, p.n, p.k)
        });
        let bytes = encode(format, &[dataset]).map_err(unwritable)?;
        Ok(ExportFile::new(bytes, left_out.len()))
    };
    tokio::task::spawn_blocking(make).await?
}

fn unwritable(error: FormatError) -> ApiFault {
    match error {
        FormatError::WouldLose { .. } | FormatError::TooLarge { .. } => ApiFault::refused(error.to_string()),
        other => ApiFault::internal(other),
    }
}

/// The version is part of the digest, because another version of the program may make another file.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How many stored solutions are damaged and therefore missing in the file.
const LEFT_OUT: HeaderName = HeaderName::from_static("diode-left-out");

/// The length of the whole file. A browser that gets the file compressed on its way learns the length from nothing else.
const BYTES: HeaderName = HeaderName::from_static("diode-bytes");

/// The licence of all that is in the file. It is a header, because no format has a place that all readers
/// would keep.
const LICENCE: HeaderName = HeaderName::from_static("diode-licence");

/// A file made of everything stored for a hardware.
pub(crate) struct Export<'a> {
    pub(crate) slug: &'a HardwareSlug,
    /// Everything that the content depends on, except the timings.
    pub(crate) form: String,
    /// The file's name when a browser saves it.
    pub(crate) name: String,
    pub(crate) media: &'static str,
    /// Whether there is a file even if nothing has been measured.
    pub(crate) even_empty: bool,
}

impl Export<'_> {
    /// Answers a request for the file or a part of it. The file is made only if the client lacks it, for HEAD only if its
    /// length is not known and the client does not ask for what is cached only.
    pub(crate) async fn answer(
        self,
        app: &App,
        client: &Client,
        method: &axum::http::Method,
        asked: &HeaderMap,
        make: impl Future<Output = ApiResult<ExportFile>>,
    ) -> ApiResult<Response> {
        let state = app.backend.store.hardware_state(self.slug).await?;
        let state = state.filter(|state| self.even_empty || !state.is_empty()).ok_or_else(|| {
            ApiFault::not_found(format!("nothing has been uploaded for `{}` yet", self.slug))
        })?;
        let made_of = format!("{VERSION}\n{}\n{state}\n{}\n{}", self.slug, self.name, self.form);
        let digest = Digest::of(made_of.as_bytes());
        let tag = etag(&digest);
        // The data may grow, so clients must ask each time whether the file has changed.
        let caching =
            [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
        if is_current(asked, &tag) {
            return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
        }
        let head = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.media)),
            (header::CONTENT_DISPOSITION, save_as(&self.name)?),
            (LICENCE, HeaderValue::from_static(DATA_LICENCE)),
        ];
        let is_head = method == axum::http::Method::HEAD;
        if is_head && let Some(length) = app.exports.length(&digest) {
            let length = [(header::CONTENT_LENGTH, length.into()), (BYTES, HeaderValue::from(length))];
            return Ok((caching, head, parts(asked, self.media), length, Body::empty()).into_response());
        }
        let is_hint = asked.get(header::CACHE_CONTROL).is_some_and(|value| value == "only-if-cached");
        if is_head && is_hint {
            return Ok((StatusCode::NO_CONTENT, [(header::CACHE_CONTROL, "no-store")]).into_response());
        }
        // A part of a kept file is read as cheaply as a part of a stored one, and a program reads many.
        let is_cheap = asked.contains_key(header::RANGE) && app.exports.is_kept(&digest);
        let left = match app.policy().limits.exports().filter(|_| !is_cheap) {
            Some(rate) => Some(admit(app, &format!("{} of {}", rate.name, client.0), &rate).await?),
            None => None,
        };
        let file = app.exports.file(&digest, make).await?;
        let bytes = [(BYTES, HeaderValue::from(file.bytes.len()))];
        if app.backend.store.hardware_state(self.slug).await?.as_ref() != Some(&state) {
            // The timings changed while the file was made, so the file may have more than its digest stands for.
            app.exports.forget(&digest);
            return Ok(([(header::CACHE_CONTROL, "no-store")], head, bytes, file.bytes).into_response());
        }
        let all = file.bytes.clone();
        let read = async move |part: Option<Range<u64>>| {
            let part = part.map_or(0..all.len(), |part| part.start as usize..part.end as usize);
            Ok(Body::from(all.slice(part)))
        };
        let sent = in_parts(method, asked, &tag, file.bytes.len() as u64, read).await?;
        if !sent.status().is_success() {
            return Ok(sent);
        }
        let mut response = (caching, head, parts(asked, self.media), bytes, sent).into_response();
        if let Some(left) = left {
            left.tell(response.headers_mut());
        }
        if file.left_out > 0 {
            response.headers_mut().insert(LEFT_OUT, file.left_out.into());
        }
        Ok(response)
    }
}

/// Says that clients may ask for parts of a file. A whole text does not say so, because it is compressed on its way.
fn parts(asked: &HeaderMap, media: &str) -> Option<[(HeaderName, HeaderValue); 1]> {
    let is_text = media.starts_with("text/") || media == "application/json";
    (!is_text || asked.contains_key(header::RANGE))
        .then(|| [(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"))])
}
