//! Compares two things of one kind on the problems that were measured for both.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use diode_api::{
    HardwareSummary, Kernels, LibraryOn, LibraryUse, MethodOn, ModelSummary, ModelType, NearestQuery,
    ProblemFilter, RatioQuery, Ratios, Receipt, ShapeOnHardware, SortOrder, TimedConfig,
};
use diode_core::ids::{HardwareSlug, ProblemId, UploadId};
use diode_core::{Config, Invalid, Method, Problem};
use diode_model::{Model, Ranker};

use crate::app::App;
use crate::boards::consensus::Consensus;
use crate::boards::pick_routes::{first_pick, ranker};
use crate::compare::ratios;
use crate::http::{ApiFault, ApiResult, FilteredQuery, StrictQuery, lookup};
use crate::store::{Pair, Sample, View};
use crate::uploads::solutions::StoredSolutions;

/// How many pairs an answer lists at most.
const MAX_PAIRS: u32 = 5_000;

/// How many uploads of a library are read. Older uploads are left out, because each upload is read as a whole.
const MAX_UPLOADS: u32 = 64;

/// How many pairs a page shows.
const DEFAULT_LIMIT: u32 = 50;

/// The best kernels of two hardwares on the same problems, by the first method that both have unless `method` names
/// one: `a` and `b` are slugs.
#[utoipa::path(
    get, path = "/comparisons/hardware", tag = "comparisons", params(RatioQuery, ProblemFilter),
    responses((status = 200, body = Ratios), (status = 404)),
)]
pub(crate) async fn hardware(
    State(app): State<App>,
    FilteredQuery(query, filter): FilteredQuery<RatioQuery>,
) -> ApiResult<Json<Ratios>> {
    let a: HardwareSummary = lookup(&app, &query.a).await?;
    let b: HardwareSummary = lookup(&app, &query.b).await?;
    let common: Vec<Method> = a.methods.iter().filter(|method| b.methods.contains(method)).copied().collect();
    let method = filter.method.or(Method::shown_first(&common));
    let filter = ProblemFilter { method, ..filter };
    let kernels = query.kernels.unwrap_or(Kernels::Triton);
    let store = &app.backend.store;
    let (a, b) = (&a.hardware.slug, &b.hardware.slug);
    let Some(method) = method else {
        let only_a = store.timed_problems(a, kernels, &filter).await?;
        let only_b = store.timed_problems(b, kernels, &filter).await?;
        return Ok(Json(Ratios { only_a, only_b, ..Ratios::default() }));
    };
    let on = |hardware: &HardwareSlug| MethodOn { hardware: hardware.clone(), method };
    Ok(Json(entries(&app, [&on(a), &on(b)], kernels, &query, &filter).await?))
}

/// The best kernels by two ways of timing: `a` and `b` are `HARDWARE@METHOD`, such as
/// `nvidia-h200@median-cold-event`.
#[utoipa::path(
    get, path = "/comparisons/methods", tag = "comparisons", params(RatioQuery, ProblemFilter),
    responses((status = 200, body = Ratios), (status = 404)),
)]
pub(crate) async fn methods(
    State(app): State<App>,
    FilteredQuery(query, filter): FilteredQuery<RatioQuery>,
) -> ApiResult<Json<Ratios>> {
    if let Some(method) = filter.method {
        return Err(Invalid::new("method", method, "none: `a` and `b` name theirs").into());
    }
    let (a, b) = (timed_on(&app, &query.a).await?, timed_on(&app, &query.b).await?);
    let kernels = query.kernels.unwrap_or(Kernels::Triton);
    Ok(Json(entries(&app, [&a, &b], kernels, &query, &filter).await?))
}

/// A hardware and a method by which something was timed on it.
async fn timed_on(app: &App, given: &str) -> ApiResult<MethodOn> {
    let MethodOn { hardware, method } = given.parse()?;
    let known: HardwareSummary = lookup(app, hardware.as_str()).await?;
    if known.methods.contains(&method) {
        return Ok(MethodOn { hardware: known.hardware.slug, method });
    }
    let there: Vec<String> = known.methods.iter().map(Method::to_string).collect();
    Err(ApiFault::not_found(format!(
        "nothing on {hardware} was timed by `{method}`; there is {}",
        there.join(", ")
    )))
}

/// Compares board entries.
async fn entries(
    app: &App,
    [a, b]: [&MethodOn; 2],
    kernels: Kernels,
    query: &RatioQuery,
    filter: &ProblemFilter,
) -> ApiResult<Ratios> {
    let store = &app.backend.store;
    let pairs = store.pairs([a, b], kernels, filter, MAX_PAIRS).await?;
    let both = pairs.total;
    let only = async |side: &MethodOn| -> ApiResult<u64> {
        let filter = ProblemFilter { method: Some(side.method), ..filter.clone() };
        let timed = store.timed_problems(&side.hardware, kernels, &filter).await?;
        Ok(timed.saturating_sub(both))
    };
    let (only_a, only_b) = (only(a).await?, only(b).await?);
    answer(pairs, only_a, only_b, b.method, query).await
}

/// The best kernels of two uploads on the same problems: `a` and `b` are their ids. What is quarantined is left
/// out.
#[utoipa::path(
    get, path = "/comparisons/uploads", tag = "comparisons", params(RatioQuery, ProblemFilter),
    responses(
        (status = 200, body = Ratios),
        (status = 404),
        (status = 503, description = "Too many such requests at once"),
    ),
)]
pub(crate) async fn uploads(
    State(app): State<App>,
    FilteredQuery(query, filter): FilteredQuery<RatioQuery>,
) -> ApiResult<Json<Ratios>> {
    let a: Receipt = lookup(&app, &query.a).await?;
    let b: Receipt = lookup(&app, &query.b).await?;
    // The turn is taken before the timings are read, so that memory holds the timings of few requests.
    let _turn = app.picking().await.ok_or_else(too_many)?;
    let kernels = query.kernels.unwrap_or(Kernels::Triton);
    let a = best_of(&app, &[a.id], kernels, &filter).await?;
    let b = best_of(&app, &[b.id], kernels, &filter).await?;
    Ok(Json(compared(a, b, &query, filter.method).await?))
}

/// The best kernels on one hardware beside two versions of the vendor's library: `a` and `b` are names that
/// `/libraries` lists. Of each, the newest 64 uploads count; the library's own times are compared unless `kernels`
/// says otherwise.
#[utoipa::path(
    get, path = "/comparisons/libraries", tag = "comparisons", params(RatioQuery, ProblemFilter),
    responses(
        (status = 200, body = Ratios),
        (status = 404),
        (status = 503, description = "Too many such requests at once"),
    ),
)]
pub(crate) async fn libraries(
    State(app): State<App>,
    FilteredQuery(query, filter): FilteredQuery<RatioQuery>,
) -> ApiResult<Json<Ratios>> {
    let (a, b): (LibraryOn, LibraryOn) = (query.a.parse()?, query.b.parse()?);
    Ok(Json(beside_libraries(&app, [&a, &b], &query, &filter).await?))
}

async fn beside_libraries(
    app: &App,
    [a, b]: [&LibraryOn; 2],
    query: &RatioQuery,
    filter: &ProblemFilter,
) -> ApiResult<Ratios> {
    let _turn = app.picking().await.ok_or_else(too_many)?;
    let (a, b) = (uploads_of(app, a).await?, uploads_of(app, b).await?);
    let kernels = query.kernels.unwrap_or(Kernels::Library);
    let a = best_of(app, &a, kernels, filter).await?;
    let b = best_of(app, &b, kernels, filter).await?;
    compared(a, b, query, filter.method).await
}

/// The times of two versions of a library by one method.
pub(crate) async fn of_libraries(app: &App, of: [&LibraryOn; 2], method: Method) -> ApiResult<Ratios> {
    let filter = ProblemFilter { method: Some(method), ..ProblemFilter::default() };
    beside_libraries(app, of, &RatioQuery::default(), &filter).await
}

fn too_many() -> ApiFault {
    ApiFault::busy("as many uploads are compared as the server takes; try again in a few seconds")
}

/// The newest uploads of a library. Fails if there is none.
async fn uploads_of(app: &App, wanted: &LibraryOn) -> ApiResult<Vec<UploadId>> {
    let ids = app.backend.store.library_uploads(wanted, MAX_UPLOADS).await?;
    if ids.is_empty() {
        return Err(ApiFault::not_found(format!(
            "no upload beside `{wanted}`; /api/v1/libraries lists what there is"
        )));
    }
    Ok(ids)
}

/// The best times in some uploads. The uploads are read one after the other, so that memory holds only one of
/// them.
async fn best_of(
    app: &App,
    uploads: &[UploadId],
    kernels: Kernels,
    filter: &ProblemFilter,
) -> ApiResult<BestTimes> {
    let mut best = BestTimes::new();
    for id in uploads {
        let stored = app.backend.store.upload_solutions(id).await?;
        let filter = filter.clone();
        best = tokio::task::spawn_blocking(move || {
            add_best_times(&mut best, &stored, kernels, &filter);
            best
        })
        .await?;
    }
    Ok(best)
}

/// Compares what both sides measured by one method.
async fn compared(
    a: BestTimes,
    b: BestTimes,
    query: &RatioQuery,
    wanted: Option<Method>,
) -> ApiResult<Ratios> {
    let common: Vec<Method> = a.keys().filter(|method| b.contains_key(method)).copied().collect();
    let Some(method) = wanted.or(Method::shown_first(&common)) else {
        let problems = |side: &BestTimes| side.values().map(|times| times.len() as u64).sum();
        return Ok(Ratios { only_a: problems(&a), only_b: problems(&b), ..Ratios::default() });
    };
    let of = |mut side: BestTimes| side.remove(&method).unwrap_or_default();
    let (a, mut b) = (of(a), of(b));
    let (in_a, in_b) = (a.len() as u64, b.len() as u64);
    let items: Vec<Pair> = a
        .into_iter()
        .filter_map(|(id, (problem, a))| Some(Pair { problem, a, b: b.remove(&id)?.1 }))
        .collect();
    let both = items.len() as u64;
    let pairs = Sample { total: both, items };
    answer(pairs, in_a - both, in_b - both, method, query).await
}

/// The best config of each problem, by method.
type BestTimes = BTreeMap<Method, BTreeMap<ProblemId, (Problem, TimedConfig)>>;

/// Adds the best times of one upload. Who else measured the same problems does not matter. This takes long, so it
/// must not run on an async thread.
fn add_best_times(best: &mut BestTimes, stored: &StoredSolutions, kernels: Kernels, filter: &ProblemFilter) {
    for solution in stored.decode().solutions {
        let Some(problem) = stored.problems.get(&solution.problem).filter(|problem| filter.admits(problem))
        else {
            continue;
        };
        // Only one of two uploads may have timed the library with rounding to TF32, too.
        let is_meant = |config: &Config| match kernels {
            Kernels::Triton => !config.is_library(),
            Kernels::Library => *config == Config::Library,
            Kernels::Everything => true,
        };
        let times = solution.timed().filter(|(config, _)| is_meant(config));
        let Some((config, time)) = times.min_by(|a, b| a.1.0.total_cmp(&b.1.0)) else { continue };
        let timed = TimedConfig { config, us: time.micros().0 };
        let of_method = best.entry(solution.method).or_default();
        let known = of_method.entry(solution.problem.clone()).or_insert_with(|| (problem.clone(), timed));
        if timed.us < known.1.us {
            known.1 = timed;
        }
    }
}

pub(crate) async fn answer(
    pairs: Sample<Pair>,
    only_a: u64,
    only_b: u64,
    method: Method,
    query: &RatioQuery,
) -> ApiResult<Ratios> {
    let noise = query.noise.unwrap_or_default();
    let order = query.order.unwrap_or(SortOrder::Ascending);
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT) as usize;
    let total = pairs.total;
    let compare = move || ratios(pairs.items, noise, order, limit);
    let compared = tokio::task::spawn_blocking(compare).await?;
    Ok(Ratios { method: Some(method), problems: total, only_a, only_b, ..compared })
}

/// How many problems are listed for a size that was not measured. They are only a hint.
const DEFAULT_EVERYWHERE: u32 = 2;

/// A shape on every hardware side by side: the measured problems of exactly its sizes and type, whatever their op
/// and layout; where there are none, the nearest.
#[utoipa::path(
    get, operation_id = "get", path = "/nearest", tag = "comparisons", params(NearestQuery),
    responses((status = 200, body = Vec<ShapeOnHardware>)),
)]
pub(crate) async fn everywhere(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<NearestQuery>,
) -> ApiResult<Json<Vec<ShapeOnHardware>>> {
    let problem = query.problem()?;
    let limit = query.limit.unwrap_or(DEFAULT_EVERYWHERE);
    let store = &app.backend.store;
    let mut everywhere = Vec::new();
    for summary in store.hardware_list().await? {
        let slug = &summary.hardware.slug;
        let method = query.method.or(summary.method);
        let (mut exact, mut items) = (false, Vec::new());
        if let Some(method) = method {
            items = store.same_size(slug, &problem, method).await?;
            exact = !items.is_empty();
            if !exact {
                items = store.nearest_problems(slug, &problem, method, limit).await?;
            }
        }
        let (hardware, name) = (summary.hardware.slug, summary.hardware.name);
        everywhere.push(ShapeOnHardware { hardware, name, method, exact, items, models: summary.models });
    }
    Ok(Json(everywhere))
}

/// How many versions are listed: more than a menu can show.
pub(crate) const MAX_LISTED: u32 = 500;

/// The versions of the vendors' libraries beside which was measured, as the uploads say; in the order of their names. At most 500, those of the newest uploads.
#[utoipa::path(
    get, operation_id = "list", path = "/libraries", tag = "comparisons",
    responses((status = 200, body = Vec<LibraryUse>), (status = 400)),
)]
pub(crate) async fn library_list(State(app): State<App>) -> ApiResult<Json<Vec<LibraryUse>>> {
    Ok(Json(app.backend.store.libraries(MAX_LISTED).await?))
}

/// How many problems are compared. Both models rank each of them, so more would take seconds.
const MAX_PROBLEMS: u32 = 200;

/// The times of what two models pick first for problems that were measured; at most 200 of them, an even sample.
/// `a` and `b` are ids of models of one hardware. The models may have been trained on these problems.
#[utoipa::path(
    get, operation_id = "get", path = "/comparisons/models", tag = "comparisons", params(RatioQuery, ProblemFilter),
    responses(
        (status = 200, body = Ratios),
        (status = 404),
        (status = 422, description = "Models that pick nothing, or of two kinds of hardware"),
        (status = 503, description = "Too many such requests at once"),
    ),
)]
pub(crate) async fn models(
    State(app): State<App>,
    FilteredQuery(query, filter): FilteredQuery<RatioQuery>,
) -> ApiResult<Json<Ratios>> {
    if query.kernels.is_some_and(|kernels| kernels != Kernels::Triton) {
        return Err(Invalid::new("kernels", "others", "triton: models pick no others here").into());
    }
    let (a, b): (ModelSummary, ModelSummary) = (lookup(&app, &query.a).await?, lookup(&app, &query.b).await?);
    let hardware = of_both(&app, &a, &b).await?;
    let Some(method) = filter.method.or(hardware.method) else { return Ok(Json(Ratios::default())) };
    let filter = ProblemFilter { method: Some(method), ..filter };
    let slug = &hardware.hardware.slug;
    let problems = app.backend.store.triton_problems(slug, &filter, MAX_PROBLEMS).await?.items;
    // The turn is taken before the models are read, so that memory holds the models of few requests.
    let _turn = app.picking().await.ok_or_else(|| {
        ApiFault::busy(
            "as many requests for picks are answered as the server takes; try again in a few seconds",
        )
    })?;
    let mut rankers = Rankers { a: ranker(&app, &a, method).await?, b: ranker(&app, &b, method).await? };
    let (mut pairs, mut only_a, mut only_b) = (Vec::new(), 0, 0);
    for problem in problems {
        let view = View { hardware: slug.clone(), problem, method };
        let stored = app.backend.store.view_solutions(&view).await?;
        // Reads one problem at a time, so that memory holds the timings of only one.
        let config_caches = app.config_caches.clone();
        let picked;
        (picked, rankers) = tokio::task::spawn_blocking(move || {
            let picked = config_caches.with(|learnt| {
                let problem = stored.problems.get(&view.problem)?;
                rankers.picked(problem, &Consensus::of_stored(&stored, learnt))
            });
            (picked, rankers)
        })
        .await?;
        match picked {
            Some((problem, Some(a), Some(b))) => pairs.push(Pair { problem, a, b }),
            Some((_, Some(_), None)) => only_a += 1,
            Some((_, None, Some(_))) => only_b += 1,
            Some((_, None, None)) | None => {}
        }
    }
    let pairs = Sample { total: pairs.len() as u64, items: pairs };
    Ok(Json(answer(pairs, only_a, only_b, method, &query).await?))
}

/// The hardware of both models. Fails if they differ.
async fn of_both(app: &App, a: &ModelSummary, b: &ModelSummary) -> ApiResult<HardwareSummary> {
    for model in [a, b] {
        if model.model_type != ModelType::Ranking {
            let given = format_args!("model {}, of type {}", model.id, model.model_type);
            return Err(ApiFault::refused(Invalid::new("model", given, "one of type ranking").to_string()));
        }
    }
    if a.hardware != b.hardware {
        let given = format_args!("models of {} and {}", a.hardware, b.hardware);
        return Err(ApiFault::refused(
            Invalid::new("hardware", given, "two models of one hardware").to_string(),
        ));
    }
    lookup(app, a.hardware.as_str()).await
}

struct Rankers {
    a: Ranker<Arc<Model>>,
    b: Ranker<Arc<Model>>,
}

impl Rankers {
    /// The first pick of each model with its measured time, if it has one. `None` if a model cannot rank such
    /// problems.
    fn picked(
        &mut self,
        problem: &Problem,
        measured: &Consensus,
    ) -> Option<(Problem, Option<TimedConfig>, Option<TimedConfig>)> {
        let timed = |ranker: &mut Ranker<Arc<Model>>| {
            let (config, _) = first_pick(ranker, problem)?;
            let agreed = measured.configs.iter().find(|agreed| agreed.config == config);
            Some(agreed.map(|agreed| TimedConfig { config, us: agreed.time.micros().0 }))
        };
        Some((problem.clone(), timed(&mut self.a)?, timed(&mut self.b)?))
    }
}
