//! Hardware, its leaderboard, its figures and its contributors.

use std::cmp::Reverse;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use diode_api::{
    Activity, Agent, HardwareContributor, HardwareSummary, Kernels, Leaderboard, LeaderboardQuery,
    LeaderboardSort, MAX_POINTS, NewestUpload, ProblemFilter, ProblemPoint, SizeMap, SortOrder, Standing,
    WorkingAgent,
};
use diode_core::hardware::Hardware;
use diode_core::ids::HardwareSlug;
use diode_core::{Invalid, Method};

use crate::app::App;
use crate::boards::survey_store::size_map;
use crate::http::{ApiFault, ApiResult, FilteredQuery, FromPath, Lookup, StrictQuery};
use crate::page_cache::PageKey;
use crate::store::{AGENT_LEASE, BoardQuery, Cursor, Now, Ranking, Store, StoreResult, UploadFilter};

/// How many rows a page has: a little more than fills a screen.
const DEFAULT_LIMIT: u32 = 50;

/// The board entries of a hardware, at one revision.
pub(crate) struct Entries {
    pub(crate) slug: HardwareSlug,
    pub(crate) revision: i64,
}

impl Lookup for Entries {
    type Id = HardwareSlug;
    const KIND: &'static str = HardwareSummary::KIND;
    const HINT: &'static str = HardwareSummary::HINT;

    async fn find(store: &Store, slug: &HardwareSlug) -> StoreResult<Option<Self>> {
        let revision = store.hardware_revision(slug).await?;
        Ok(revision.map(|revision| Self { slug: slug.clone(), revision }))
    }
}

/// The best known config of every problem, with the best Triton config and the library kernel beside it.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}/leaderboard", tag = "hardware",
    params(("slug" = String, Path), LeaderboardQuery, ProblemFilter),
    responses(
        (status = 200, body = Leaderboard),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn leaderboard(
    State(app): State<App>,
    FilteredQuery(query, filter): FilteredQuery<LeaderboardQuery>,
    FromPath(Entries { slug, revision }): FromPath<Entries>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let asked = board_query(&query, &filter)?;
    let question = PageKey::new(slug.clone(), &("board", revision, &query, &filter));
    let make = async { Ok(app.backend.store.leaderboard(&slug, &asked).await?) };
    app.pages.answer(&question, make).await?.reply(&headers)
}

fn board_query(query: &LeaderboardQuery, filter: &ProblemFilter) -> Result<BoardQuery, Invalid> {
    let sort = query.sort.unwrap_or(LeaderboardSort::Tflops);
    let order = query.order.unwrap_or(match sort {
        LeaderboardSort::Time => SortOrder::Ascending,
        LeaderboardSort::Tflops
        | LeaderboardSort::Roofline
        | LeaderboardSort::Gain
        | LeaderboardSort::Ratio
        | LeaderboardSort::Flops => SortOrder::Descending,
    });
    let limit = query.limit.unwrap_or(DEFAULT_LIMIT);
    let ranking = Ranking { kernels: query.kernels.unwrap_or(Kernels::Everything), sort, order };
    let after = query.cursor.as_deref().map(|text| Cursor::decode(text, ranking)).transpose()?;
    Ok(BoardQuery { filter: filter.clone(), ranking, limit, after })
}

impl Lookup for HardwareSummary {
    type Id = HardwareSlug;
    const KIND: &'static str = "hardware";
    const HINT: &'static str = "/api/v1/hardware lists what there is";

    async fn find(store: &Store, slug: &HardwareSlug) -> StoreResult<Option<Self>> {
        store.hardware_summary(slug).await
    }
}

/// Reads one row, for routes that need no figures.
impl Lookup for Hardware {
    type Id = HardwareSlug;
    const KIND: &'static str = HardwareSummary::KIND;
    const HINT: &'static str = HardwareSummary::HINT;

    async fn find(store: &Store, slug: &HardwareSlug) -> StoreResult<Option<Self>> {
        store.hardware(slug).await
    }
}

/// How many entries the list of hardware has at most: more than a menu can show.
const MAX_LISTED: usize = 500;

/// The method that the request names or, without one, the method that is shown first.
pub(crate) fn shown_method(summary: &HardwareSummary, asked: Option<Method>) -> ApiResult<Method> {
    asked.or(summary.method).ok_or_else(|| {
        ApiFault::not_found(format!("nothing has been uploaded for `{}` yet", summary.hardware.slug))
    })
}

/// Everything that data or models speak of, by slug. At most 500, those with the most problems.
#[utoipa::path(get, operation_id = "list", path = "/hardware", tag = "hardware", responses((status = 200, body = Vec<HardwareSummary>)))]
pub(crate) async fn hardware_list(State(app): State<App>) -> ApiResult<Json<Vec<HardwareSummary>>> {
    let mut all = app.backend.store.hardware_list().await?;
    if all.len() > MAX_LISTED {
        all.sort_by_key(|summary| Reverse(summary.problems));
        all.truncate(MAX_LISTED);
        all.sort_by(|a, b| a.hardware.slug.cmp(&b.hardware.slug));
    }
    Ok(Json(all))
}

/// One kind of hardware.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}", tag = "hardware", params(("slug" = String, Path)),
    responses((status = 200, body = HardwareSummary)),
)]
pub(crate) async fn hardware(FromPath(summary): FromPath<HardwareSummary>) -> Json<HardwareSummary> {
    Json(summary)
}

/// Every problem that the filters leave as a point of the overview chart; an even
/// sample if there are more than 3,000.
#[utoipa::path(
    get, operation_id = "problems", path = "/hardware/{slug}/problems", tag = "hardware",
    params(("slug" = String, Path), ProblemFilter),
    responses(
        (status = 200, body = Vec<ProblemPoint>),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn problem_points(
    State(app): State<App>,
    StrictQuery(filter): StrictQuery<ProblemFilter>,
    FromPath(Entries { slug, revision }): FromPath<Entries>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let question = PageKey::new(slug.clone(), &("points", revision, &filter));
    let make = async { Ok(app.backend.store.problem_points(&slug, &filter, MAX_POINTS).await?) };
    app.pages.answer(&question, make).await?.reply(&headers)
}

/// The most problems that a map is made of. If there are more, it uses an even sample.
const MAX_PROBLEMS: u32 = 100_000;

/// Where Triton is faster than the library, and which tiles win: the problems that the filters leave, by M and N.
#[utoipa::path(
    get, operation_id = "get", path = "/hardware/{slug}/sizes", tag = "hardware",
    params(("slug" = String, Path), ProblemFilter),
    responses(
        (status = 200, body = SizeMap),
        (status = 304, description = "The client has it already"),
    ),
)]
pub(crate) async fn sizes(
    State(app): State<App>,
    StrictQuery(filter): StrictQuery<ProblemFilter>,
    FromPath(summary): FromPath<HardwareSummary>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let slug = &summary.hardware.slug;
    let method = shown_method(&summary, filter.method)?;
    let filter = ProblemFilter { method: Some(method), ..filter };
    let revision = app.backend.store.hardware_revision(slug).await?;
    let question = PageKey::new(slug.clone(), &("sizes", revision, &filter));
    let make = async {
        let problems = app.backend.store.sized_problems(slug, &filter, MAX_PROBLEMS).await?;
        Ok(tokio::task::spawn_blocking(move || size_map(&problems, &filter, method)).await?)
    };
    app.pages.answer(&question, make).await?.reply(&headers)
}

/// How many contributors a page shows.
const MAX_CONTRIBUTORS: u32 = 200;

/// Who measured a hardware, whoever measured most problems first; 200 at most.
#[utoipa::path(
    get, operation_id = "list", path = "/hardware/{slug}/contributors", tag = "hardware", params(("slug" = String, Path)),
    responses((status = 200, body = Vec<HardwareContributor>)),
)]
pub(crate) async fn contributors(
    State(app): State<App>,
    FromPath(hardware): FromPath<Hardware>,
) -> ApiResult<Json<Vec<HardwareContributor>>> {
    Ok(Json(app.backend.store.contributors(&hardware.slug, MAX_CONTRIBUTORS).await?))
}

/// How many entries each list has: few, because the list shares its page with other things.
const UPLOADS: u32 = 6;
const AGENTS: u32 = 6;

/// The newest contributions, and the agents that are at work.
#[utoipa::path(get, operation_id = "get", path = "/activity", tag = "hardware", responses((status = 200, body = Activity)))]
pub(crate) async fn activity(State(app): State<App>) -> ApiResult<Json<Activity>> {
    let store = &app.backend.store;
    let counting = UploadFilter { contributor: None, standing: Some(Standing::Counts) };
    let uploads = store.uploads(&counting, UPLOADS).await?;
    let since = Now(Now::read().0 - AGENT_LEASE);
    let is_there = |agent: &Agent| agent.seen_at.parse().is_ok_and(|seen: jiff::Timestamp| seen >= since.0);
    let working = store.agents_seen(since).await?;
    let mut agents = store.agents(None, AGENTS).await?;
    agents.retain(is_there);
    Ok(Json(Activity {
        uploads: uploads.into_iter().map(NewestUpload::from).collect(),
        working,
        agents: agents.into_iter().map(WorkingAgent::from).collect(),
    }))
}
