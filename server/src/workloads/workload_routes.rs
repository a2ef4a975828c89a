//! The models of the catalogue with what is known of each, their files, and wishes for what is missing.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use diode_api::query::{from_text, whole_number};
use diode_api::{
    AskedWorkload, ModelSummary, WantedWorkload, Workload, WorkloadHardware, WorkloadManifest, WorkloadModel,
    WorkloadWay,
};
use diode_core::hardware::{Hardware, Vendor, fits};
use diode_core::ids::{HardwareSlug, ProblemId};
use diode_core::{Invalid, Problem};
use diode_workloads::catalogue::models;
use diode_workloads::layers::Serving;
use diode_workloads::model_config::Quantization;
use diode_workloads::published::{Published, numbers};
use diode_workloads::served::{Reader, ServedLayer, has_kernels};
use diode_workloads::zip::zip;
use serde::{Deserialize, Deserializer};

use crate::accounts::{Authorized, Measure};
use crate::agents::agent_routes::ask_for;
use crate::app::App;
use crate::boards::board_routes::shown_method;
use crate::boards::consensus::Consensus;
use crate::boards::export_cache::ExportFile;
use crate::boards::export_routes::Export;
use crate::http::{ApiFault, ApiResult, InPath, StrictQuery, json_body, lookup};
use crate::limits::Client;
use crate::workloads::Counts;
use crate::workloads::describing::{Described, Describing, Measured};
use crate::workloads::listing::{Listing, listing};
use crate::workloads::{AskedWay, Way};

/// More GPUs than this serve no model.
const MOST_GPUS: u64 = 1024;

/// A way of serving a model.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(crate) struct WayQuery {
    /// Tensor parallel size; 1 unless given
    #[serde(deserialize_with = "gpus")]
    #[param(minimum = 1, maximum = 1024)]
    tp: Option<u64>,
    /// Expert parallel size; 1 unless given
    #[serde(deserialize_with = "gpus")]
    #[param(minimum = 1, maximum = 1024)]
    ep: Option<u64>,
    /// Form of the weights; the model's own unless given
    #[serde(deserialize_with = "from_text")]
    #[param(value_type = Option<Quantization>)]
    quantization: Option<Quantization>,
    /// What reads the configs; vllm unless given
    #[serde(deserialize_with = "from_text")]
    #[param(value_type = Option<Reader>)]
    consumer: Option<Reader>,
}

fn gpus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole_number(deserializer, 1..=MOST_GPUS)
}

impl From<WayQuery> for AskedWay {
    fn from(query: WayQuery) -> Self {
        let WayQuery { tp, ep, quantization, consumer } = query;
        Self { tensor_parallel: tp, expert_parallel: ep, quantization, reader: consumer }
    }
}

/// How much of each model of the catalogue is measured or predicted on each GPU, by tensor parallel size and form of the
/// weights.
#[utoipa::path(
    get, operation_id = "list", path = "/workloads", tag = "workloads",
    responses((status = 200, body = diode_api::Workloads)),
)]
pub(crate) async fn list(State(app): State<App>) -> ApiResult<Json<diode_api::Workloads>> {
    let store = &app.backend.store;
    let published = store.models(None, 0).await?;
    // Hardware that nobody confirmed and no model knows would be a column without a number.
    let gpus = store.hardware_list().await?.into_iter().filter(|summary| {
        summary.hardware.vendor != Vendor::Cpu
            && (summary.confirmed || ModelSummary::best_for(&published, &summary.hardware.slug).is_some())
    });
    let gpus: Vec<Hardware> = gpus.map(|summary| summary.hardware).collect();
    let (mut hardware, mut counts) = (Vec::new(), Vec::new());
    for gpu in gpus {
        let model = ModelSummary::best_for(&published, &gpu.slug);
        counts.push(counts_of(&app, &gpu, model).await?);
        let model = model.map(|model| model.id.clone());
        hardware.push(WorkloadHardware { slug: gpu.slug, name: gpu.name, model });
    }
    let mut listed: Vec<WorkloadModel> = models()
        .iter()
        .map(|model| WorkloadModel {
            name: model.name.clone(),
            tags: model.tags.iter().map(ToString::to_string).collect(),
            served: Vec::new(),
        })
        .collect();
    // Hardware with another fp8 has other problems, and as many of them.
    for (at, way) in Listing::usual().ways.iter().enumerate() {
        listed[way.model].served.push(WorkloadWay {
            tensor_parallel: way.tensor_parallel,
            quantization: way.quantization.to_string(),
            problems: way.problems(),
            on: counts.iter().map(|counts| counts[at]).collect(),
        });
    }
    Ok(Json(diode_api::Workloads { hardware, models: listed }))
}

/// The counts of a hardware, which are kept until its timings or its model change.
async fn counts_of(app: &App, hardware: &Hardware, model: Option<&ModelSummary>) -> ApiResult<Counts> {
    let state = app.backend.store.hardware_state(&hardware.slug).await?;
    let made_of = format!("{state:?} {:?}", model.map(|model| &model.digest));
    if let Some(counts) = app.workloads.counts(&hardware.slug, &made_of) {
        return Ok(counts);
    }
    let model = match model {
        Some(summary) => Some(app.workloads.model(app, summary).await?),
        None => None,
    };
    let measured = app.backend.store.measured_ids(&hardware.slug).await?;
    let described = hardware.clone();
    let count = move || listing(&described).count(&described, &measured, model.as_deref());
    let counts = Counts::new(tokio::task::spawn_blocking(count).await?);
    app.workloads.keep_counts(&hardware.slug, made_of, &counts);
    Ok(counts)
}

/// The ending of the path that asks for files.
const ZIP: &str = ".zip";

/// The kernel configs of a model on a hardware, for each layer and batch size: the measured ones, and those that the
/// published model predicts. `HARDWARE.zip` has the files that a program reads, and a `manifest.json` that says where each
/// config comes from; it changes with the hardware's timings and with the published model only.
#[utoipa::path(
    get, operation_id = "get", path = "/workloads/{model}/{hardware}", tag = "workloads",
    params(("model" = String, Path), ("hardware" = String, Path), WayQuery),
    responses(
        (status = 200, content((Workload = "application/json"), (Vec<u8> = "application/zip"))),
        (status = 304, description = "The client has it already"),
        (status = 422, description = "The program reads no file for this model, or nothing is known"),
        (status = 503, description = "Too many such requests at once"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    client: Client,
    StrictQuery(query): StrictQuery<WayQuery>,
    InPath((model, hardware)): InPath<(String, String)>,
    method: axum::http::Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let slug = hardware.strip_suffix(ZIP);
    let way = Way::read(&model, query.into())?;
    let known: Hardware = lookup(&app, slug.unwrap_or(&hardware)).await?;
    let asked = Asked::new(&app, &known.slug, way).await?;
    let mut layers = asked.way.layers(&known)?;
    if slug.is_none() {
        return Ok(Json(asked.workload(&app, &known, layers).await?).into_response());
    }
    layers.retain(|layer| !layer.files.is_empty());
    if layers.is_empty() {
        return Err(ApiFault::refused(format!(
            "consumer: got {}, which reads no files for {} in {}; expected sglang for dense models in fp8-block, or inductor \
             for bf16",
            asked.way.reader, asked.way.named.name, asked.way.serving.quantization
        )));
    }
    let Serving { tensor_parallel, expert_parallel, quantization } = asked.way.serving;
    let name = format!(
        "{}-{}-tp{tensor_parallel}-ep{expert_parallel}-{quantization}-{}{ZIP}",
        asked.way.named.name, known.slug, asked.way.reader
    );
    let export = Export {
        slug: &known.slug,
        form: format!(
            "workload {:?} {:?}",
            asked.predicting.as_ref().map(|model| &model.digest),
            asked.release(&app).map(ToString::to_string)
        ),
        name,
        media: "application/zip",
        even_empty: true,
    };
    let make = asked.archive(&app, &known, layers);
    export.answer(&app, &client, &method, &headers, make).await
}

/// Asks agents to measure all problems of a way of serving a model that are not measured. Those that most contributors
/// ask for come first.
#[utoipa::path(
    post, operation_id = "want", path = "/workloads/{model}/{hardware}/wanted", tag = "workloads",
    params(("model" = String, Path), ("hardware" = String, Path)),
    request_body = WantedWorkload,
    responses(
        (status = 202, body = AskedWorkload, description = "Agents measure them when they can"),
        (status = 401),
        (status = 403),
    ),
)]
pub(crate) async fn want(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Measure>,
    InPath((model, hardware)): InPath<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<AskedWorkload>)> {
    let wanted: WantedWorkload = json_body(&headers, body).await?;
    let way = Way::read(&model, asked_way(&wanted)?)?;
    let known: Hardware = lookup(&app, &hardware).await?;
    let mut problems = way.problems(&known)?;
    let all = problems.len() as u64;
    problems.retain(|problem| has_kernels(problem) && measures(&known, problem));
    let able = problems.len() as u64;
    let asked = ask_for(&app, &known, problems, account.as_ref()).await?;
    let counts = AskedWorkload { problems: all, measured: able - asked, asked, unable: all - able };
    Ok((StatusCode::ACCEPTED, Json(counts)))
}

/// Whether a hardware has the memory and the types for a problem.
fn measures(hardware: &Hardware, problem: &Problem) -> bool {
    let multiplies = problem.op.is_plain() || !problem.a_dtype.is_fp8() || hardware.scales(problem.a_dtype);
    multiplies && fits(hardware, problem).is_ok()
}

fn asked_way(wanted: &WantedWorkload) -> Result<AskedWay, Invalid> {
    let gpus = |what, given: Option<u64>| match given {
        Some(given) if !(1..=MOST_GPUS).contains(&given) => {
            Err(Invalid::new(what, given, format!("1 to {MOST_GPUS}")))
        }
        given => Ok(given),
    };
    Ok(AskedWay {
        tensor_parallel: gpus("tensor_parallel", wanted.tensor_parallel)?,
        expert_parallel: gpus("expert_parallel", wanted.expert_parallel)?,
        quantization: wanted.quantization.as_deref().map(str::parse).transpose()?,
        reader: wanted.consumer.as_deref().map(str::parse).transpose()?,
    })
}

/// A way of serving, and what its configs are made of.
struct Asked {
    way: Way,
    /// The state of the hardware's timings.
    state: String,
    /// The published model.
    predicting: Option<ModelSummary>,
}

impl Asked {
    async fn new(app: &App, slug: &HardwareSlug, way: Way) -> ApiResult<Self> {
        let store = &app.backend.store;
        let state = store.hardware_state(slug).await?.unwrap_or_default();
        let published = store.models(Some(slug), 0).await?;
        let predicting = ModelSummary::best_for(&published, slug).cloned();
        Ok(Self { way, state, predicting })
    }

    async fn workload(self, app: &App, hardware: &Hardware, layers: Vec<ServedLayer>) -> ApiResult<Workload> {
        let problems: Vec<ProblemId> = self.way.problems(hardware)?.iter().map(Problem::id).collect();
        let (measured, waiting) = app.backend.store.progress_of(&hardware.slug, &problems).await?;
        let Serving { tensor_parallel, expert_parallel, quantization } = self.way.serving;
        let made_of = format!(
            "{} {} {} {tensor_parallel} {expert_parallel} {quantization} {} {:?}",
            hardware.slug,
            self.state,
            self.way.named.name,
            self.way.reader,
            self.predicting.as_ref().map(|model| &model.digest)
        );
        let make = async { self.describe(app, hardware, layers).await.map(Arc::new) };
        let described = app.workloads.0.described.get_or_insert_async(&made_of, make).await?;
        let manifest = self.manifest(app, hardware, &described);
        Ok(Workload { manifest, problems: problems.len() as u64, measured, waiting })
    }

    async fn archive(
        self,
        app: &App,
        hardware: &Hardware,
        layers: Vec<ServedLayer>,
    ) -> ApiResult<ExportFile> {
        let described = self.describe(app, hardware, layers).await?;
        if described.files.is_empty() {
            return Err(ApiFault::refused(format!(
                "nothing is known of {} on {}: no model is published that predicts it, and nothing was measured; ask for \
                 it by `diode want`",
                self.way.named.name, hardware.name
            )));
        }
        let manifest = self.manifest(app, hardware, &described);
        let mut text = serde_json::to_vec_pretty(&manifest).map_err(ApiFault::internal)?;
        text.push(b'\n');
        let mut files = vec![("manifest.json".to_owned(), text)];
        files.extend(described.files.into_iter().map(|(name, text)| (name, text.into_bytes())));
        Ok(ExportFile::new(zip(&files), 0))
    }

    async fn describe(
        &self,
        app: &App,
        hardware: &Hardware,
        layers: Vec<ServedLayer>,
    ) -> ApiResult<Described> {
        let _turn = app.picking().await.ok_or_else(|| {
            ApiFault::busy(
                "as many requests for picks are answered as the server takes; try again in a few seconds",
            )
        })?;
        let summary = app.backend.store.hardware_summary(&hardware.slug).await?;
        let model = match &self.predicting {
            Some(summary) => Some(app.workloads.model(app, summary).await?),
            None => None,
        };
        let problems: Vec<ProblemId> = self.way.problems(hardware)?.iter().map(Problem::id).collect();
        let method = summary.as_ref().filter(|summary| !summary.methods.is_empty());
        let stored = match method {
            None => BTreeMap::new(),
            Some(summary) => {
                let method = shown_method(summary, None)?;
                app.backend.store.solutions_of(&hardware.slug, &problems, method).await?
            }
        };
        let (hardware, reader, caches) = (hardware.clone(), self.way.reader, app.config_caches.clone());
        let release = self.release(app).cloned();
        let describe = move || {
            let measured: Measured = caches.with(|learnt| {
                let of = |(id, stored)| {
                    let consensus = Consensus::of_stored(&stored, learnt);
                    (!consensus.configs.is_empty()).then_some((id, consensus))
                };
                stored.into_iter().filter_map(of).collect()
            });
            let describing = Describing {
                hardware: &hardware,
                reader,
                model,
                release: release.as_deref(),
                measured: &measured,
            };
            describing.describe(&layers)
        };
        tokio::task::spawn_blocking(describe).await?
    }

    /// The newest release of the consumer whose files the server has.
    fn release<'a>(&self, app: &'a App) -> Option<&'a Arc<Published>> {
        let of_consumer =
            app.published.iter().filter(|release| Some(release.project) == self.way.reader.server());
        of_consumer.max_by_key(|release| numbers(&release.version))
    }

    fn manifest(&self, app: &App, hardware: &Hardware, described: &Described) -> WorkloadManifest {
        let Serving { tensor_parallel, expert_parallel, quantization } = self.way.serving;
        let is_experts =
            |layer: &diode_api::WorkloadLayer| layer.name == "experts" && !layer.files.is_empty();
        let server = self.way.reader.server().filter(|_| described.layers.iter().any(is_experts));
        WorkloadManifest {
            model: self.way.named.name.clone(),
            hardware: hardware.slug.clone(),
            tensor_parallel,
            expert_parallel,
            quantization: quantization.to_string(),
            consumer: self.way.reader.to_string(),
            data: self.state.clone(),
            predicted_by: self.predicting.as_ref().map(|model| model.id.clone()),
            release: self.release(app).map(ToString::to_string),
            layers: described.layers.clone(),
            files: described.files.keys().cloned().collect(),
            variable: server.map(|server| server.variable().to_owned()),
            notes: described.notes.iter().cloned().collect(),
        }
    }
}
