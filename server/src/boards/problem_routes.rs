//! One problem with its configs and where its times come from, and the measured problems nearest to a given one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use diode_api::query::from_text;
use diode_api::{
    ConfigCover, ConfigResult, FailedConfig, HardwareSummary, NearestProblem, NearestQuery, ProblemDetail,
    ProblemFilter, ProblemSources, ProblemView, PublishedTime,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ProblemId};
use diode_core::{Config, Method, Nanos, Problem};
use diode_workloads::published::{Baseline, Published};
use diode_workloads::tuning::Pick;
use serde::Deserialize;

use crate::app::App;
use crate::boards::board_routes::shown_method;
use crate::boards::consensus::{AgreedTime, ByProblem, Consensus, Repeats};
use crate::boards::export_cache::ExportFile;
use crate::boards::export_routes::Export;
use crate::boards::pick_routes::Cover;
use crate::http::{ApiFault, ApiResult, FromPath, Lookup, StrictQuery};
use crate::limits::Client;
use crate::page_cache::{Page, PageKey};
use crate::store::{Store, StoreResult, View, Way};
use crate::uploads::solutions::cut;
use crate::workloads::timed_tiles;

/// The most timed and the most failed configs in an answer: far more than the largest space has. A limit is needed
/// because a dataset may name any config.
const MAX_CONFIGS: usize = 5_000;
const MAX_VIEWS: usize = 500;
const MAX_SOURCES: u32 = 200;

/// About how many bytes of JSON one config takes; rather too many than too few.
const JSON_OF_CONFIG: usize = 320;

impl Lookup for Problem {
    type Id = ProblemId;
    const KIND: &'static str = "problem";
    const HINT: &'static str = "the rows of /api/v1/hardware/{slug}/leaderboard hold problem ids";

    async fn find(store: &Store, id: &ProblemId) -> StoreResult<Option<Self>> {
        store.problem(id).await
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ViewQuery {
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<HardwareSlug>)]
    hardware: Option<HardwareSlug>,
    #[serde(default, deserialize_with = "from_text")]
    method: Option<Method>,
}

/// The configs that were tried on a problem, by one method on one hardware, 5,000 timed and
/// 5,000 failed ones at most; the first view there is unless one is named.
#[utoipa::path(
    get, operation_id = "get", path = "/problems/{id}", tag = "problems",
    params(("id" = String, Path), ViewQuery),
    responses(
        (status = 200, body = ProblemDetail),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn problem(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<ViewQuery>,
    FromPath(problem): FromPath<Problem>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let store = &app.backend.store;
    let id = problem.id();
    let mut ways = store.problem_ways(&id).await?;
    let views: Vec<ProblemView> = ways.iter().map(Way::view).collect();
    let Way { hardware, method, revision } = ways.swap_remove(choose(&id, &views, &query)?);
    // Every upload, removal and confirmation raises the revision. Other hardware may have a view more.
    let releases: Vec<String> = app.published.iter().map(ToString::to_string).collect();
    let question =
        PageKey::new(hardware.slug.clone(), &("problem", revision, &id, method, &views, &releases));
    let make = async {
        let view = View { hardware: hardware.slug.clone(), problem: id.clone(), method };
        let stored = store.view_solutions(&view).await?;
        let sources = store.solution_sources(&view, MAX_SOURCES).await?.items;
        let version = sources.iter().find_map(|source| source.library.clone());
        let version = version
            .filter(|one| sources.iter().all(|source| source.library.as_ref().is_none_or(|own| own == one)));
        let (config_caches, releases) = (app.config_caches.clone(), Arc::clone(&app.published));
        let page = tokio::task::spawn_blocking(move || {
            let (consensus, repeats) = config_caches.with(|learnt| Consensus::with_repeats(&stored, learnt));
            let published = published(&releases, &problem, &hardware, &consensus);
            let mut detail = detail(problem, hardware, view, views, consensus, &repeats);
            detail.published = published;
            detail.library_version = version;
            let json = json_of(&detail);
            Page::of_json(json.map_err(ApiFault::internal)?)
        });
        page.await?
    };
    app.pages.page(&question, make).await?.reply(&headers)
}

/// Who measured a problem, when and with what, by one method on one hardware: newest first, 200 at most. The first view
/// there is unless one is named.
#[utoipa::path(
    get, operation_id = "sources", path = "/problems/{id}/sources", tag = "problems",
    params(("id" = String, Path), ViewQuery),
    responses((status = 200, body = ProblemSources)),
)]
pub(crate) async fn solution_sources(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<ViewQuery>,
    FromPath(problem): FromPath<Problem>,
) -> ApiResult<Json<ProblemSources>> {
    let store = &app.backend.store;
    let id = problem.id();
    let ways = store.problem_ways(&id).await?;
    let way = &ways[choose(&id, &ways.iter().map(Way::view).collect::<Vec<_>>(), &query)?];
    let view = View { hardware: way.hardware.slug.clone(), problem: id, method: way.method };
    let found = store.solution_sources(&view, MAX_SOURCES).await?;
    let more = found.total.saturating_sub(found.items.len() as u64);
    Ok(Json(ProblemSources { sources: found.items, more }))
}

/// The detail as JSON, written on the thread that computed it. The memory is allocated at once, because the JSON
/// takes some hundreds of kilobytes.
fn json_of(detail: &ProblemDetail) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::with_capacity(JSON_OF_CONFIG * (detail.configs.len() + 8));
    serde_json::to_writer(&mut json, detail)?;
    Ok(json)
}

/// The place of the view that is asked for.
fn choose(id: &ProblemId, views: &[ProblemView], query: &ViewQuery) -> ApiResult<usize> {
    let wanted = |view: &ProblemView| {
        query.hardware.as_ref().is_none_or(|hardware| *hardware == view.hardware)
            && query.method.is_none_or(|method| method == view.method)
    };
    views.iter().position(wanted).ok_or_else(|| {
        if views.is_empty() {
            return ApiFault::not_found(format!(
                "nobody has timed problem `{id}`, or no timing of it counts"
            ));
        }
        let there: Vec<_> = views.iter().map(|v| format!("{} by {}", v.hardware, v.method)).collect();
        ApiFault::not_found(format!(
            "problem `{id}` was not measured that way; there is {}",
            there.join(", ")
        ))
    })
}

fn detail(
    problem: Problem,
    hardware: Hardware,
    view: View,
    mut views: Vec<ProblemView>,
    consensus: Consensus,
    repeats: &HashMap<Config, Repeats>,
) -> ProblemDetail {
    let entry = consensus.board_entry(&problem, &hardware);
    let (triton, library, triton_over_library, triton_ties) = entry
        .map(|entry| (entry.triton, entry.library, entry.triton_over_library, entry.triton_ties))
        .unwrap_or_default();
    // The view that is shown must be among the listed views.
    let own = views.iter().position(|one| one.hardware == view.hardware && one.method == view.method);
    if let Some(place) = own.filter(|place| *place >= MAX_VIEWS) {
        views.swap(MAX_VIEWS - 1, place);
    }
    views.truncate(MAX_VIEWS);
    let beyond = |number: usize| number.saturating_sub(MAX_CONFIGS) as u64;
    ProblemDetail {
        more_configs: beyond(consensus.configs.len()),
        more_failures: beyond(consensus.failures.len()),
        roofline_us: consensus.roofline(&problem, &hardware).map(|nanos| Nanos(nanos).micros().0),
        problem_id: view.problem,
        problem,
        hardware,
        method: view.method,
        views,
        triton,
        library,
        library_version: None,
        triton_over_library,
        triton_ties,
        solutions: consensus.solutions,
        published: Vec::new(),
        configs: consensus
            .configs
            .iter()
            .take(MAX_CONFIGS)
            .map(|agreed| result(agreed, repeats.get(&agreed.config).copied().unwrap_or_default()))
            .collect(),
        failures: consensus
            .failures
            .into_iter()
            .take(MAX_CONFIGS)
            .map(|(config, reason)| FailedConfig { config, reason })
            .collect(),
    }
}

/// What files of some releases hold for a problem, as far as it was timed.
fn published(
    releases: &[Arc<Published>],
    problem: &Problem,
    hardware: &Hardware,
    consensus: &Consensus,
) -> Vec<PublishedTime> {
    let timed = timed_tiles(hardware, problem, consensus);
    let us = |config: Config| {
        let pick = Pick { tile: *config.tile()?, down: None, us: f64::NAN };
        pick.measured(std::slice::from_ref(&timed)).map(|(us, _)| us)
    };
    let of = |release: &Arc<Published>| {
        let Baseline { file, batch, config, default } = release.baseline(hardware, problem)?.ok()?;
        Some(PublishedTime {
            release: release.to_string(),
            file: file.name.clone(),
            batch_size: batch,
            config,
            us: us(config)?,
            default_us: default.and_then(us),
        })
    };
    releases.iter().filter_map(of).collect()
}

fn result(agreed: &AgreedTime, Repeats { spread, number }: Repeats) -> ConfigResult {
    ConfigResult {
        config: agreed.config,
        us: agreed.time.micros().0,
        timings: agreed.timings,
        contributors: agreed.contributors,
        spread,
        repeats: number,
    }
}

/// How many problems are listed: few enough to read at a glance.
const DEFAULT_LIMIT: u32 = 5;

/// The measured problems that are most like a shape, the nearest first. Empty if none of its type was measured.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}/nearest", tag = "hardware", params(("slug" = String, Path), NearestQuery),
    responses((status = 200, body = Vec<NearestProblem>)),
)]
pub(crate) async fn nearest(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<NearestQuery>,
    FromPath(summary): FromPath<HardwareSummary>,
) -> ApiResult<Json<Vec<NearestProblem>>> {
    let problem = query.problem()?;
    // A hardware without data has no method and no problems.
    let Some(method) = query.method.or(summary.method) else { return Ok(Json(Vec::new())) };
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let slug = &summary.hardware.slug;
    Ok(Json(app.backend.store.nearest_problems(slug, &problem, method, limit).await?))
}

/// The most problems that a list is made from. With 1,600 configs each, their timings take 50 MB.
const MAX_PROBLEMS: u32 = 4_000;
/// How many timings are decoded at a time.
const TIMINGS_AT_ONCE: u64 = 1 << 20;
/// How many configs a list has at most. A longer list is no shortlist, and each further config helps few problems.
const MOST_CONFIGS: usize = 128;

/// How few Triton configs are enough for the problems that the filters leave.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}/configs", tag = "hardware",
    params(("slug" = String, Path), ProblemFilter),
    responses(
        (status = 200, body = ConfigCover),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn configs(
    State(app): State<App>,
    client: Client,
    StrictQuery(filter): StrictQuery<ProblemFilter>,
    FromPath(summary): FromPath<HardwareSummary>,
    asked: axum::http::Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let method = shown_method(&summary, filter.method)?;
    let filter = ProblemFilter { method: Some(method), ..filter };
    let slug = &summary.hardware.slug;
    let name = format!("{slug}-configs.json");
    // The entries decide which problems there are, and may be updated later than the timings. So the file depends
    // on their revision, too.
    let revision = app.backend.store.hardware_revision(slug).await?;
    let form = format!("{revision:?} {filter:?}");
    let export = Export { slug, form, name, media: "application/json", even_empty: false };
    export.answer(&app, &client, &asked, &headers, make(&app, &summary, method, &filter)).await
}

/// Uses the consensus of each problem, as the boards do. Reads a few problems at a time.
async fn make(
    app: &App,
    summary: &HardwareSummary,
    method: Method,
    filter: &ProblemFilter,
) -> ApiResult<ExportFile> {
    let store = &app.backend.store;
    let slug = &summary.hardware.slug;
    let sample = store.triton_problems(slug, filter, MAX_PROBLEMS).await?;
    let wanted: BTreeSet<ProblemId> = sample.items.into_iter().collect();
    let (mut cover, mut left_out) = (Cover::default(), 0);
    // Reads runs of neighbouring problems, so that memory holds the timings of one run, even if few of its
    // problems are wanted.
    let sizes = store.problem_sizes(slug, method).await?;
    for problems in cut(&sizes, TIMINGS_AT_ONCE) {
        if wanted.range(problems.clone()).next().is_none() {
            continue;
        }
        let mut stored = store.problems_solutions(slug, method, problems).await?;
        stored.solutions.retain(|solution| wanted.contains(&solution.problem));
        let add = move || {
            let ByProblem { consensuses, left_out } = Consensus::by_problem(&stored);
            for (_, consensus) in consensuses {
                let triton = consensus.leading().filter(|agreed| !agreed.config.is_library());
                cover.add(triton.map(|agreed| (agreed.config, agreed.time.0)));
            }
            (cover, left_out)
        };
        let damaged;
        (cover, damaged) = tokio::task::spawn_blocking(add).await?;
        left_out += damaged;
    }
    let write = move || {
        let (sampled, steps) = (cover.problems(), cover.steps(MOST_CONFIGS));
        serde_json::to_vec(&ConfigCover { method, problems: sample.total, sampled, steps })
    };
    let bytes = tokio::task::spawn_blocking(write).await?.map_err(ApiFault::internal)?;
    Ok(ExportFile::new(bytes, left_out))
}
